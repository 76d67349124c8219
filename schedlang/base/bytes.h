// Amounts of memory for people.
#pragma once

#include <cstdint>
#include <string>

namespace stringline {

// "1.50 GiB": in the largest unit of which there is a whole one, with so many digits behind the
// point; bytes have none.
std::string PrintBytes(int64_t bytes, int digits = 2);

// In the unit of the largest figure beside it, or in a smaller unit if the figure would round to 0.
std::string PrintBytesBeside(int64_t largest, int64_t bytes, int digits);

}  // namespace stringline
