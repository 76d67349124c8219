// Compares our declarations with NCCL's header, if the machine has it.
#include "executor/nccl/nccl_library.h"
#include "gtest/gtest.h"

#if __has_include(<nccl.h>)
#include <nccl.h>

#include <type_traits>

#if NCCL_VERSION_CODE >= 22800
namespace stringline::nccl {
namespace {

#define SAME_FIELD(ours, theirs) \
  static_assert(offsetof(Config, ours) == offsetof(ncclConfig_t, theirs))
SAME_FIELD(size, size);
SAME_FIELD(magic, magic);
SAME_FIELD(version, version);
SAME_FIELD(blocking, blocking);
SAME_FIELD(cga_cluster_size, cgaClusterSize);
SAME_FIELD(min_ctas, minCTAs);
SAME_FIELD(max_ctas, maxCTAs);
SAME_FIELD(net_name, netName);
SAME_FIELD(split_share, splitShare);
SAME_FIELD(traffic_class, trafficClass);
SAME_FIELD(comm_name, commName);
SAME_FIELD(collnet_enable, collnetEnable);
SAME_FIELD(cta_policy, CTAPolicy);
SAME_FIELD(shrink_share, shrinkShare);
SAME_FIELD(nvls_ctas, nvlsCTAs);
SAME_FIELD(channels_per_net_peer, nChannelsPerNetPeer);
SAME_FIELD(nvlink_centric_sched, nvlinkCentricSched);
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
static_assert(int{kRemoteError} == int{ncclRemoteError} && int{kInProgress} == int{ncclInProgress});
static_assert(int{kInt8} == int{ncclInt8} && int{kFloat32} == int{ncclFloat32});
static_assert(int{kSum} == int{ncclSum} && kNoColor == NCCL_SPLIT_NOCOLOR);

// A parameter of ours matches theirs: pointers to structs are pointers, enumerations integers.
template <typename Ours, typename Theirs>
constexpr bool kSame =
    sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> ==
                                          std::is_pointer_v<Theirs>&& std::is_class_v<Ours> ==
                                          std::is_class_v<Theirs>;
template <typename Ours, typename... OurArgs, typename Theirs, typename... TheirArgs>
constexpr bool SameFunction(Ours (*)(OurArgs...), Theirs (*)(TheirArgs...)) {
  if constexpr (sizeof...(OurArgs) != sizeof...(TheirArgs)) {
    return false;
  } else {
    return kSame<Ours, Theirs> && (kSame<OurArgs, TheirArgs> && ...);
  }
}
#define X(name, result, parameters)                                                        \
  static_assert(SameFunction(decltype(Library::name){}, decltype(&::nccl##name){nullptr}), \
                "nccl" #name);
STRINGLINE_NCCL_FUNCTIONS(X)
#undef X

TEST(NcclHeader, AnEmptyConfigurationIsThatOfTheHeader) {
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  Config ours;
  ours.version = NCCL_VERSION_CODE;
  EXPECT_EQ(ours.size, sizeof(ours));
  EXPECT_EQ(ours.magic, theirs.magic);
  EXPECT_EQ(ours.blocking, theirs.blocking);
  EXPECT_EQ(ours.split_share, theirs.splitShare);
  EXPECT_EQ(ours.comm_name, theirs.commName);
  EXPECT_EQ(ours.nvlink_centric_sched, theirs.nvlinkCentricSched);
}

}  // namespace
}  // namespace stringline::nccl
#endif
#endif
