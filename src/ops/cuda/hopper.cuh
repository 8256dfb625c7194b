// What compute capability 9.0a has and C++ has not: barriers that count bytes, tiles fetched by the tensor memory
// accelerator, products of a warpgroup (PTX ISA 8.0, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate").
//
// A tile in shared memory is rows of 64 bf16, 128 bytes each, with 16-byte pieces swizzled within 8 rows: what a fetch
// with CU_TENSOR_MAP_SWIZZLE_128B writes and what a product reads through a descriptor.
#pragma once
#include <cuda.h>

#include <cstdint>

namespace zoetrope::cuda::hopper {

using Barrier = unsigned long long;

__device__ inline unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

__device__ inline void init(Barrier& b, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&b)), "r"(arrivals));
}
__device__ inline void expect(Barrier& b, int bytes) {  // one arrival, and so many bytes that are on their way
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&b)), "r"(bytes)
               : "memory");
}
__device__ inline void arrive(Barrier& b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&b)) : "memory");
}
__device__ inline void wait(Barrier& b, int parity) {  // for the end of the phase of this parity
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "AGAIN%=:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra READY%=;\n"
      "bra AGAIN%=;\n"
      "READY%=:\n"
      "}" ::"r"(shared_address(&b)),
      "r"(parity)
      : "memory");
}

// The box of the map at (column, head, row); what lies outside of the tensor comes as zeros.
__device__ inline void fetch(void* to, const CUtensorMap& map, Barrier& b, int column, int head, int row) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::
          "r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&b)), "r"(column), "r"(head), "r"(row)
      : "memory");
}

// A tile as an operand. Summed over columns: `panels` is not read. Summed over rows: bytes between panels of 64
// columns.
__device__ inline uint64_t operand(unsigned address, unsigned panels) {
  constexpr uint64_t eight_rows = 1024, swizzle_128 = uint64_t{1} << 62;
  return (address & 0x3FFFF) >> 4 | static_cast<uint64_t>(panels >> 4) << 16 | (eight_rows >> 4) << 32 | swizzle_128;
}

__device__ inline void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void products_issued() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int left>  // until at most so many groups are not done
__device__ inline void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}

#define ZOETROPE_4(x, i) "+f"(x[i]), "+f"(x[i + 1]), "+f"(x[i + 2]), "+f"(x[i + 3])
#define ZOETROPE_16(x, i) ZOETROPE_4(x, i), ZOETROPE_4(x, i + 4), ZOETROPE_4(x, i + 8), ZOETROPE_4(x, i + 12)
#define ZOETROPE_64(x) ZOETROPE_16(x, 0), ZOETROPE_16(x, 16), ZOETROPE_16(x, 32), ZOETROPE_16(x, 48)
#define ZOETROPE_64_NAMES                                                        \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,"   \
  "%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39," \
  "%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58," \
  "%59,%60,%61,%62,%63"
#define ZOETROPE_96_NAMES                                                                \
  ZOETROPE_64_NAMES                                                                      \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84" \
  ",%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"

// Sums of a warpgroup, [64, C] fp32, are C / 2 numbers a thread: number 4 j + 2 r + i is row 16 warp + lane / 4 + 8 r,
// column 8 j + 2 (lane % 4) + i.

// s [64, 192] = or += a [64, 16] b [192, 16]^T, both summed over columns.
__device__ inline void product(float (&s)[96], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %98, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {" ZOETROPE_96_NAMES
      "}, %96, %97, add, 1, 1, 0, 0;\n"
      "}"
      : ZOETROPE_64(s), ZOETROPE_16(s, 64), ZOETROPE_16(s, 80)
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}

// s [64, 128] += p [64, 16] b [16, 128], b summed over rows. Of p a thread holds the pairs at rows lane / 4 and 8 more,
// then the same 8 columns further.
__device__ inline void product(float (&s)[64], const unsigned (&p)[4], uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" ZOETROPE_64_NAMES
               "}, {%64,%65,%66,%67}, %68, 1, 1, 1, 1;"
               : ZOETROPE_64(s)
               : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(b));
}

#undef ZOETROPE_4
#undef ZOETROPE_16
#undef ZOETROPE_64
#undef ZOETROPE_64_NAMES
#undef ZOETROPE_96_NAMES

}  // namespace zoetrope::cuda::hopper
