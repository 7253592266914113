// Symbol visibility of the shared library.
#pragma once

#define FACULA_API __attribute__((visibility("default")))
