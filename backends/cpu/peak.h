#pragma once

namespace facula::cpu {

/// Float32 multiply-adds of all threads, in GFLOP/s; takes some milliseconds.
double measure_peak_gflops();

}  // namespace facula::cpu
