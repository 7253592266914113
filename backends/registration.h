// Entry points of the backends linked into the library.
#pragma once

namespace facula::cpu {
void register_backend();
}
