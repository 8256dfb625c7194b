// What the contexts of the tests run on. One of cpu_device.cpp and cuda_device.cpp is linked, so that the same cases
// make a suite for each device.
#pragma once
#include <memory>

#include "ops/backend.h"

namespace zoetrope::device {

std::unique_ptr<Backend> make_backend();
Traits traits();                             // of its back ends, for dry contexts that imitate them
void prepare(Rank& rank, Backend& backend);  // traits, streams, pages, segments; before the first Ctx

// Between host memory and a tensor's elements. read sees all work that was issued before, on any stream.
void read(const Tensor& from, void* to);
void write(const void* from, const Tensor& to);
void poison(void* at, size_t bytes);  // 0xFF in every byte: NaN in each float type

}  // namespace zoetrope::device
