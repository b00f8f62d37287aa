// Which library multiplies f32 matrices fastest on this machine: OpenBLAS with each of its kernels, each in a process of its own, and oneDNN, by
// class of shape (kernels/nn/gemm/product_library.h). The choice goes into a machine file; no run ever measures it again.
#pragma once

#include <cstdio>
#include <map>
#include <span>
#include <string>

#include "bench/doctor/doctor_checks.h"
#include "kernels/nn/gemm/product_library.h"

namespace thinwire::bench {

/// What a contender reached: 1e9 operations per second by class of shape. A class that is missing was not measured, or multiplied wrongly.
struct ProductRates {
  std::string kernels;  ///< of OpenBLAS; empty: oneDNN
  std::map<std::string, double> gflops;
};

/// What differs by less counts as equal: then OpenBLAS's own kernels stay before others, and OpenBLAS before oneDNN, so that a choice does not hang
/// on noise.
inline constexpr double least_gain = 1.05;

/// Kernels: those whose products of all classes, each of as many operations, take the least time; `own` are the ones that OpenBLAS takes by itself.
/// Classes: oneDNN where it is faster than these. A contender that lacks a class is no choice for it (kernels: for any). UsageError where no
/// contender of OpenBLAS has all.
nn::ProductLibrary choose_products(std::span<const ProductRates> openblas, const ProductRates& onednn, const std::string& own);

/// Measures, prints a table and writes the choice into the machine file `path`, keeping its links. Returns the exit status. EnvironmentError
/// where a measurement does not end or nothing can be written.
int tune_products(const std::string& path, const DoctorContext& context, std::FILE* table);

/// In the child: rates of `library` ("openblas" or "onednn") as one line of JSON.
int tune_child(const std::string& library, bool quick);

}  // namespace thinwire::bench
