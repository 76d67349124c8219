// The interpreter of PTX itself, on small texts: what each instruction computes, and that every
// fault and everything unknown is named.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"
#include "tests/cuda/ptx/library.h"
#include "tests/cuda/standin/kernel_names.h"

namespace stringline::ptx {
namespace {

// A kernel of one parameter, the address in %rd0, which is that of `memory`.
std::string KernelOf(const std::string& body) {
  return absl::StrCat(R"(
.version 9.0
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.global .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
.visible .entry kernel(
  .param .u64 kernel_param_0
)
{
  .reg .pred %p<9>;
  .reg .b16 %h<9>;
  .reg .b32 %r<40>;
  .reg .f32 %f<20>;
  .reg .b64 %rd<20>;
  .reg .f64 %fd<9>;
  .shared .align 16 .b8 shared[4096];
  ld.param.u64 %rd0, [kernel_param_0];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %rd1, %r0, 4;
  add.s64 %rd1, %rd1, %rd0;
)",
                      body, "\n  ret;\n}\n");
}

std::string ShownOf(const char* mangled) { return ShownKernel(Demangled(mangled)); }

struct Ran {
  absl::Status status;
  std::string fault;
};

class Kernel {
 public:
  explicit Kernel(const std::string& body) {
    auto library = Library::Make({KernelOf(body)});
    status_ = library.status();
    if (!library.ok()) return;
    library_ = *std::move(library);
    status_ = library_->Find("kernel").status();
  }
  Ran Run(std::vector<uint32_t>* memory, unsigned threads = 1, unsigned blocks = 1,
          std::vector<Piece> declared = {}) {
    if (!status_.ok()) return {status_, ""};
    const auto begin = reinterpret_cast<uint64_t>(memory->data());
    LaunchMemory allowed;
    allowed.allocations = {{begin, begin + 4 * memory->size()}};
    for (const Piece& piece : declared) {
      allowed.declared.push_back({begin + piece.begin, begin + piece.end, piece.writable});
    }
    uint64_t argument = begin;
    void* args[] = {&argument};
    Player player(library_.get());
    player.LimitInstructions(1'000'000);
    const LaunchSize size = {{blocks, 1, 1}, {threads, 1, 1}, 256};
    return {status_, player.Play(**library_->Find("kernel"), size, args, allowed).fault};
  }

 private:
  absl::Status status_;
  std::unique_ptr<Library> library_;
};

Ran RunText(const std::string& body, std::vector<uint32_t>* memory, unsigned threads = 1,
            unsigned blocks = 1) {
  return Kernel(body).Run(memory, threads, blocks);
}

TEST(Ptx, WhatIsUnknownIsNamed) {
  for (const auto& [body, named] : std::vector<std::pair<const char*, const char*>>{
           {"vadd2.u32 %r1, %r1, %r2;", "instruction vadd2.u32"},
           {"add.rp.f32 %f1, %f1, %f2;", "instruction add.rp.f32"},
           {"ld.volatile.global.u32 %r1, [%rd0];", "modifier volatile"},
           {"add.s32 %r1, %rd1, %r2;", "a register of 8 bytes, %rd1, for 4"},
           {"add.s32 %r1, %q1, %r2;", "register %q1"},
           {"mov.u64 %rd2, nowhere;", "symbol nowhere"},
           {"bar.sync 1, 32;", "this barrier"},
           {"bra nowhere;", "label nowhere"},
           {".tex .u64 picture;", "directive .tex"},
           {"call.uni printf, ();", "this call"},
           {"atom.global.add.u32 %r1, [%rd0], 1;", "instruction atom.global.add.u32"},
           {"cp.async.bulk.commit_group;", "instruction cp.async.bulk.commit_group"}}) {
    std::vector<uint32_t> memory(4);
    const absl::Status status = RunText(body, &memory).status;
    EXPECT_TRUE(absl::StrContains(status.message(), named)) << body << ": " << status;
  }
}

// Every instruction of a body, with 32-bit words from memory in %r1, %r2, %r3, the same bits in %f1
// to %f3, and the word that it leaves in %r4 or %f4.
struct ValueCase {
  const char* body;
  uint32_t in[3];
  uint32_t out;
};

uint32_t BitsOf(float value) { return std::bit_cast<uint32_t>(value); }

TEST(Ptx, InstructionsGiveWhatTheirDescriptionSays) {
  const float one = 1, third = 1.0f / 3, nan = std::nanf(""), tiny = std::ldexp(1.0f, -149);
  const uint32_t kNan = BitsOf(nan);
  const std::vector<ValueCase> cases = {
      {"sub.s32 %r4, %r1, %r2;", {3, 5, 0}, 0xfffffffeu},
      {"mul.hi.u32 %r4, %r1, %r2;", {0x80000000u, 6, 0}, 3},
      {"div.s32 %r4, %r1, %r2;", {uint32_t(-7), 2, 0}, uint32_t(-3)},
      {"rem.s32 %r4, %r1, %r2;", {uint32_t(-7), 2, 0}, uint32_t(-1)},
      {"shr.s32 %r4, %r1, %r2;", {0x80000000u, 40, 0}, 0xffffffffu},
      {"shr.u32 %r4, %r1, %r2;", {0x80000000u, 40, 0}, 0},
      {"shl.b32 %r4, %r1, %r2;", {3, 31, 0}, 0x80000000u},
      {"clz.b32 %r4, %r1;", {0x00010000u, 0, 0}, 15},
      {"mad.lo.s32 %r4, %r1, %r2, %r3;", {7, uint32_t(-2), 4}, uint32_t(-10)},
      {"setp.lt.s32 %p1, %r1, %r2; selp.b32 %r4, 1, 2, %p1;", {uint32_t(-1), 0, 0}, 1},
      {"setp.lt.u32 %p1, %r1, %r2; selp.b32 %r4, 1, 2, %p1;", {uint32_t(-1), 0, 0}, 2},
      {"setp.lt.f32 %p1, %f1, %f2; selp.b32 %r4, 1, 2, %p1;", {kNan, BitsOf(one), 0}, 2},
      {"setp.geu.f32 %p1, %f1, %f2; selp.b32 %r4, 1, 2, %p1;", {kNan, BitsOf(one), 0}, 1},
      {"setp.ne.f32 %p1, %f1, %f1; selp.b32 %r4, 1, 2, %p1;", {kNan, 0, 0}, 2},
      {"setp.neu.f32 %p1, %f1, %f1; selp.b32 %r4, 1, 2, %p1;", {kNan, 0, 0}, 1},
      {"@!%p1 mov.u32 %r4, 5; setp.eq.s32 %p1, %r1, 3; @%p1 mov.u32 %r4, 6;", {3, 0, 0}, 6},
      {"max.f32 %f4, %f1, %f2;", {kNan, BitsOf(one), 0}, BitsOf(one)},
      {"min.f32 %f4, %f1, %f2;", {BitsOf(0.0f), BitsOf(-0.0f), 0}, BitsOf(-0.0f)},
      {"fma.rn.f32 %f4, %f1, %f2, %f3;",
       {BitsOf(third), BitsOf(3), BitsOf(-1)},
       BitsOf(static_cast<float>(double{third} * 3 - 1))},
      // A product and a sum, each rounded.
      {"mul.f32 %f4, %f1, %f2; add.f32 %f4, %f4, %f3;", {BitsOf(third), BitsOf(3), BitsOf(-1)}, 0},
      {"fma.rm.f32 %f4, %f1, %f2, %f3;",
       {BitsOf(-tiny), BitsOf(one), BitsOf(one)},
       BitsOf(std::nextafter(1.0f, 0.0f))},
      {"fma.rn.f32 %f4, %f1, %f2, %f3;", {BitsOf(-tiny), BitsOf(one), BitsOf(one)}, BitsOf(one)},
      {"ex2.approx.f32 %f4, %f1;", {BitsOf(-140), 0, 0}, BitsOf(std::ldexp(1.0f, -140))},
      {"ex2.approx.ftz.f32 %f4, %f1;", {BitsOf(-140), 0, 0}, 0},
      {"cvt.sat.f32.f32 %f4, %f1;", {kNan, 0, 0}, 0},
      {"cvt.rn.bf16.f32 %h1, %f1; cvt.u32.u16 %r4, %h1;", {0x3f818000u, 0, 0}, 0x3f82},
      {"cvt.rn.bf16x2.f32 %r4, %f1, %f2;", {BitsOf(1), BitsOf(2), 0}, 0x3f804000u},
      {"cvt.rni.s32.f64 %r4, %fd1;", {0, 0, 0}, 2},  // of 2.5
      {"cvt.s64.s32 %rd4, %r1; cvt.u32.u64 %r4, %rd4;", {uint32_t(-5), 0, 0}, uint32_t(-5)},
      {"mov.b64 %rd4, {%r1, %r2}; mov.b64 {%r5, %r4}, %rd4;", {1, 2, 0}, 2},
      {"st.global.u32 [%rd0], %r1; ld.global.s8 %r4, [%rd0];", {0x1280, 0, 0}, 0xffffff80u},
      {"st.global.u32 [%rd0], %r1; ld.global.u16 %r4, [%rd0];", {0x19280, 0, 0}, 0x9280},
      {"mov.u64 %rd4, table; ld.global.u32 %r4, [%rd4+4];", {0, 0, 0}, 0x08070605u},
      {"mov.u32 %r5, shared; st.shared.u32 [%r5+8], %r1; mov.u64 %rd4, shared; "
       "cvta.shared.u64 %rd5, %rd4; ld.u32 %r4, [%rd5+8];",
       {77, 0, 0},
       77},
      {"mov.u32 %r5, dynamic; st.shared.u32 [%r5+252], %r1; ld.shared.u32 %r4, [dynamic+252];",
       {78, 0, 0},
       78},
      // 64 bits by carry.
      {"add.cc.u32 %r5, %r1, %r2; addc.u32 %r4, %r3, 0;", {0xffffffffu, 1, 9}, 10},
      {"sub.cc.u32 %r5, %r1, %r2; subc.u32 %r4, %r3, 0;", {0, 1, 9}, 8},
      {"mad.lo.cc.u32 %r5, %r1, %r1, %r2; madc.hi.u32 %r4, %r1, %r1, %r3;",
       {0xffffffffu, 0xffffffffu, 0},
       0xffffffffu}};
  for (const ValueCase& c : cases) {
    std::vector<uint32_t> memory = {c.in[0], c.in[1], c.in[2], 0};
    const std::string body = absl::StrCat(
        "mov.f64 %fd1, 0d4004000000000000;\nsetp.eq.s32 %p1, 1, 1;\nld.global.v2.u32 {%r1, %r2}, "
        "[%rd0]; ld.global.u32 %r3, [%rd0+8];\nmov.b32 %f1, %r1; mov.b32 %f2, %r2; mov.b32 %f3, "
        "%r3; mov.u32 %r4, 0; mov.f32 %f4, 0f00000000;\n",
        c.body, "\n", absl::StrContains(c.body, "%f4") ? "mov.b32 %r4, %f4;\n" : "",
        "st.global.u32 [%rd0+12], %r4;");
    const Ran ran = RunText(body, &memory);
    ASSERT_TRUE(ran.status.ok()) << ran.status;
    EXPECT_EQ(ran.fault, "");
    EXPECT_EQ(memory[3], c.out) << c.body << std::hex << " gives 0x" << memory[3] << ", not 0x"
                                << c.out;
  }
}

struct FaultCase {
  const char* body;
  unsigned threads, blocks;
  const char* fault;  // a part; "": none
};

TEST(Ptx, EveryFaultIsNamed) {
  const std::vector<FaultCase> cases = {
      {"ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd0+8];", 1, 1,
       "kernel, block 0, thread 0: `ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd0+8]` (PTX line"},
      {"ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd0+8];", 1, 1, "is not a multiple of 16"},
      {"ld.global.u32 %r1, [%rd1+4096];", 1, 1, "is outside of all memory"},
      {"ld.global.u32 %r1, [%rd1];", 65, 1, "thread 64: "},
      {"mov.u32 %r1, 4350; ld.shared.u8 %h1, [%r1+2];", 1, 1, "is outside of shared memory"},
      {"ld.shared.u32 %r1, [shared];", 1, 1, "reads shared byte 0, which nothing has written"},
      // Threads.
      {"st.global.u32 [%rd1], %r0;", 64, 1, ""},
      {"st.global.u32 [%rd0], %r0;", 64, 1,
       "thread 1: `st.global.u32 [%rd0], %r0` (PTX line 22) writes byte 0, which thread 0 of block "
       "0 wrote, with no order between them"},
      {"st.global.u32 [%rd1], %r0; ld.global.u32 %r1, [%rd0];", 64, 1, "reads byte 0, which"},
      {"st.global.u32 [%rd1], %r0; bar.sync 0; ld.global.u32 %r1, [%rd0];", 64, 1, ""},
      {"st.global.u32 [%rd1], %r0; bar.warp.sync -1; ld.global.u32 %r1, [%rd0];", 32, 1, ""},
      {"st.global.u32 [%rd1], %r0; bar.warp.sync -1; ld.global.u32 %r1, [%rd0];", 64, 1,
       "thread 32: "},
      {"ld.global.u32 %r1, [%rd0]; bar.warp.sync -1; setp.eq.s32 %p1, %r0, 40; @%p1 "
       "st.global.u32 [%rd0], %r0;",
       64, 1, "thread 40: `@%p1 st.global.u32 [%rd0], %r0` (PTX line 22) writes byte 0, which"},
      {"ld.global.u32 %r1, [%rd0]; bar.sync 0; setp.eq.s32 %p1, %r0, 40; @%p1 "
       "st.global.u32 [%rd0], %r0;",
       64, 1, ""},
      {"shl.b32 %r2, %r0, 2; st.shared.u32 [%r2], %r0; xor.b32 %r2, %r2, 4; ld.shared.u32 %r1, "
       "[%r2];",
       64, 1, "reads shared byte 4, which thread 1 of block 0 wrote"},
      // Blocks.
      {"setp.eq.s32 %p1, %r0, 0; @%p1 st.global.u32 [%rd0], 1;", 32, 2,
       "block 1, thread 0: `@%p1 st.global.u32 [%rd0], 1` (PTX line 22) writes byte 0, which "
       "thread 0 of block 0 wrote"},
      {"ld.global.u32 %r1, [%rd0]; mov.u32 %r2, %ctaid.x; setp.eq.s32 %p1, %r2, 2; bar.sync 0; "
       "setp.eq.s32 %p2, %r0, 0; and.pred %p1, %p1, %p2; @%p1 st.global.u32 [%rd0], 1;",
       32, 3,
       "block 2, thread 0: `@%p1 st.global.u32 [%rd0], 1` (PTX line 22) writes byte 0, which "
       "threads of several blocks read"},
      // Lanes that never come.
      {"setp.gt.s32 %p1, %r0, 40; @%p1 ret; bar.sync 0;", 64, 1,
       "thread 0: `bar.sync 0` (PTX line 22) waits in divergent code: thread 41 has exited"},
      {"setp.gt.s32 %p1, %r0, 40; @%p1 bra $B; bar.sync 0; bra $E;\n$B:\nbar.sync 0;\n$E:", 64, 1,
       "waits in divergent code: thread 41 waits at `bar.sync 0`"},
      {"setp.gt.s32 %p1, %r0, 40; @%p1 ret; shfl.sync.down.b32 %r1, %r0, 1, 31, -1;", 64, 1,
       "thread 32: `shfl.sync.down.b32 %r1, %r0, 1, 31, -1` (PTX line 22) waits in divergent code: "
       "thread 41 has exited"},
      // Lanes that come by different ways.
      {"setp.gt.s32 %p1, %r0, 40; @%p1 bra $B;\n$A:\nshfl.sync.down.b32 %r1, %r0, 1, 31, -1;\n"
       "bra $E;\n$B:\nadd.s32 %r2, %r0, 1;\nbra $A;\n$E:",
       64, 1, ""},
      {"$A:\nbra $A;", 1, 1, "goes on without an end"}};
  for (const FaultCase& c : cases) {
    std::vector<uint32_t> memory(64);
    const Ran ran = RunText(c.body, &memory, c.threads, c.blocks);
    ASSERT_TRUE(ran.status.ok()) << ran.status;
    const bool none = std::string(c.fault).empty();
    EXPECT_TRUE(none ? ran.fault.empty() : absl::StrContains(ran.fault, c.fault)) << c.body << "\n"
                                                                                  << ran.fault;
  }
}

TEST(Ptx, ALaunchKeepsToWhatItDeclared) {
  const std::vector<Piece> declared = {{0, 64, false}, {64, 128, true}};
  for (const auto& [body, fault] : std::vector<std::pair<const char*, const char*>>{
           {"ld.global.u32 %r1, [%rd0+60]; st.global.u32 [%rd0+64], %r1;", ""},
           {"ld.global.u32 %r1, [%rd0+128];", "is outside of what the kernel declared"},
           {"st.global.u32 [%rd0+60], %r0;", "writes to what the kernel declared that it reads"}}) {
    std::vector<uint32_t> memory(64);
    const std::string seen = Kernel(body).Run(&memory, 1, 1, declared).fault;
    EXPECT_EQ(seen.empty(), std::string(fault).empty()) << seen;
    EXPECT_TRUE(absl::StrContains(seen, fault)) << seen;
  }
}

TEST(Ptx, ShufflesMoveTheWordsOfLanes) {
  std::vector<uint32_t> memory(64);
  const Ran ran = RunText(
      "add.s32 %r1, %r0, 100; shfl.sync.down.b32 %r2|%p1, %r1, 8, 31, -1; "
      "shfl.sync.idx.b32 %r3|%p2, %r1, 5, 31, -1; @!%p1 mov.u32 %r3, 0; "
      "shl.b32 %r3, %r3, 16; add.s32 %r2, %r2, %r3; st.global.u32 [%rd1], %r2;",
      &memory, 64);
  EXPECT_EQ(ran.fault, "");
  for (uint32_t t = 0; t < 64; ++t) {
    const uint32_t lane = t % 32, fifth = t - lane + 5 + 100;
    const bool inside = lane + 8 < 32;
    EXPECT_EQ(memory[t], (inside ? fifth << 16 : 0) + 100 + (inside ? t + 8 : t)) << t;
  }
}

// A (16 x 16) and B (16 x 8) in shared memory by rows, 16 bytes of a row at a time; the product by
// ldmatrix and mma, against sums in double.
TEST(Ptx, MatrixInstructionsMultiply) {
  std::mt19937 random(7);
  std::vector<uint16_t> a(16 * 16), b(16 * 8);
  const auto value = [](uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); };
  for (auto* const matrix : {&a, &b}) {
    for (uint16_t& bits : *matrix) {
      bits = static_cast<uint16_t>(BitsOf(static_cast<float>(random() % 4001) / 2000 - 1) >> 16);
    }
  }
  std::vector<uint32_t> memory(64 + 128 + 64 + 128);
  std::memcpy(memory.data(), a.data(), 512);
  std::memcpy(memory.data() + 128, b.data(), 256);
  for (int i = 0; i < 128; ++i) memory[static_cast<size_t>(192 + i)] = BitsOf(0.5f * i);
  // Lane l copies 16 bytes of A, and of B if l < 16; it reads row l % 16, columns from 8 (l / 16).
  const Ran ran = RunText(
      "shl.b32 %r1, %r0, 4; cvt.u64.u32 %rd2, %r1; add.s64 %rd2, %rd2, %rd0;"
      "cp.async.cg.shared.global [%r1], [%rd2], 16;"
      "setp.gt.u32 %p1, %r0, 15; @%p1 bra $C;"
      "cp.async.ca.shared.global [%r1+512], [%rd2+512], 16;\n$C:\n"
      "cp.async.commit_group; cp.async.wait_group 0; bar.warp.sync -1;"
      "and.b32 %r2, %r0, 15; shl.b32 %r2, %r2, 5; and.b32 %r3, %r0, 16; add.s32 %r2, %r2, %r3;"
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r2];"
      "and.b32 %r4, %r0, 15; shl.b32 %r4, %r4, 4;"
      "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r14, %r15}, [%r4+512];"
      // C and D: rows l / 4 and 8 more, columns 2 (l % 4) and the next.
      "shr.u32 %r5, %r0, 2; shl.b32 %r5, %r5, 5; and.b32 %r6, %r0, 3; shl.b32 %r6, %r6, 3;"
      "add.s32 %r5, %r5, %r6; cvt.u64.u32 %rd3, %r5; add.s64 %rd3, %rd3, %rd0;"
      "ld.global.v2.f32 {%f1, %f2}, [%rd3+768]; ld.global.v2.f32 {%f3, %f4}, [%rd3+1024];"
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f5, %f6, %f7, %f8}, "
      "{%r10, %r11, %r12, %r13}, {%r14, %r15}, {%f1, %f2, %f3, %f4};"
      "st.global.v2.f32 [%rd3+768], {%f5, %f6}; st.global.v2.f32 [%rd3+1024], {%f7, %f8};",
      &memory, 32);
  ASSERT_TRUE(ran.status.ok()) << ran.status;
  ASSERT_EQ(ran.fault, "");
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      double sum = 0.5 * (8 * i + j);
      for (int k = 0; k < 16; ++k) {
        sum += double{value(a[static_cast<size_t>(16 * i + k)])} *
               value(b[static_cast<size_t>(8 * k + j)]);
      }
      const auto seen = std::bit_cast<float>(memory[static_cast<size_t>(192 + 8 * i + j)]);
      ASSERT_NEAR(seen, sum, 1e-5) << i << ", " << j;
    }
  }
}

TEST(Ptx, AnAsynchronousCopyHasNoValueBeforeItsWait) {
  const std::string copies =
      "shl.b32 %r1, %r0, 4; cvt.u64.u32 %rd2, %r1; add.s64 %rd2, %rd2, %rd0;"
      "cp.async.cg.shared.global [%r1], [%rd2], 16; cp.async.commit_group;"
      "cp.async.cg.shared.global [%r1+1024], [%rd2], 16; cp.async.commit_group;";
  const struct {
    const char* then;
    const char* fault;
  } kCases[] = {
      {"cp.async.wait_group 1; bar.sync 0; ld.shared.u32 %r2, [shared];", ""},
      {"cp.async.wait_group 1; bar.sync 0; ld.shared.u32 %r2, [shared+1024];", "has not filled"},
      {"cp.async.wait_group 2; bar.sync 0; ld.shared.u32 %r2, [shared];", "has not filled"},
      {"cp.async.wait_all; bar.sync 0; ld.shared.u32 %r2, [shared+1024];", ""},
      {"bar.sync 0; cp.async.wait_group 0; ld.shared.u32 %r2, [shared];", "no order between"},
      {"cp.async.wait_group 0; ld.shared.u32 %r2, [shared];", "no order between"},
  };
  for (const auto& c : kCases) {
    std::vector<uint32_t> memory(64);
    const Ran ran = RunText(copies + c.then, &memory, 16);
    ASSERT_TRUE(ran.status.ok()) << ran.status;
    EXPECT_EQ(ran.fault.empty(), std::string(c.fault).empty()) << c.then << ran.fault;
    EXPECT_TRUE(absl::StrContains(ran.fault, c.fault)) << c.then << ran.fault;
  }
}

// A function is inlined, with registers and local memory of its own.
TEST(Ptx, CallsOfFunctions) {
  const std::string function = R"(
.func (.param .b64 back) twice(
  .param .b64 twice_param_0
)
{
  .local .align 8 .b8 __local_depot0[16];
  .reg .b64 %SPL;
  .reg .b64 %rd<9>;
  mov.u64 %SPL, __local_depot0;
  ld.param.b64 %rd1, [twice_param_0];
  st.local.u64 [%SPL+8], %rd1;
  ld.local.u64 %rd2, [%SPL+8];
  add.s64 %rd2, %rd2, %rd1;
  st.param.b64 [back+0], %rd2;
  ret;
}
)";
  const std::string body = R"(
  cvt.u64.u32 %rd2, %r0;
  { // callseq
  .param .b64 param0;
  st.param.b64 [param0+0], %rd2;
  .param .b64 retval0;
  call.uni (retval0), twice, (param0);
  ld.param.b64 %rd3, [retval0+0];
  }
  cvt.u32.u64 %r1, %rd3;
  st.global.u32 [%rd1], %r1;
)";
  auto library = Library::Make({KernelOf(body) + function});
  ASSERT_TRUE(library.ok()) << library.status();
  const auto program = (*library)->Find("kernel");
  ASSERT_TRUE(program.ok()) << program.status();
  std::vector<uint32_t> memory(64);
  uint64_t begin = reinterpret_cast<uint64_t>(memory.data());
  void* args[] = {&begin};
  Player player(library->get());
  const Played played =
      player.Play(**program, {{1, 1, 1}, {64, 1, 1}, 0}, args, {{{begin, begin + 256}}, {}});
  EXPECT_EQ(played.fault, "");
  for (uint32_t t = 0; t < 64; ++t) EXPECT_EQ(memory[t], 2 * t);
}

TEST(Ptx, NamesAreShownAsTheyAreWritten) {
  EXPECT_EQ(ShownOf("_ZN10stringline4cuda10BodyKernelILi256ENS0_3AddIfEEEEvT0_li"),
            "Add<float> (256 threads)");
  EXPECT_EQ(ShownOf("_ZN10stringline12copy_kernels3SumILi4EEEvNS_8SumShareE"), "Sum<4>");
  EXPECT_EQ(ShownOf("kernel"), "kernel");
}

}  // namespace
}  // namespace stringline::ptx
