// Numbers for people: "5 frames", "14,288,491,584", "15.2 MiB", "6.52 PFLOP".
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace zoetrope {

std::string plural(int64_t n, std::string_view noun);  // "1 frame", "5 frames"
std::string grouped(int64_t n);                        // digits by three
std::string human_bytes(int64_t bytes);                // three digits and B, KiB, MiB, GiB or TiB
std::string human_flops(double flops);                 // three digits and FLOP, kFLOP ... EFLOP

}  // namespace zoetrope
