// Compares our declarations with Open MPI's header, if the machine has it.
#include "executor/mpi/mpi_library.h"
#include "gtest/gtest.h"

#ifdef STRINGLINE_MPI_HEADER
#define OMPI_SKIP_MPICXX 1
#include STRINGLINE_MPI_HEADER

#include <cstddef>
#include <type_traits>

namespace stringline::mpi {
namespace {

#define SAME_FIELD(ours, theirs) \
  static_assert(offsetof(Status, ours) == offsetof(MPI_Status, theirs))
SAME_FIELD(source, MPI_SOURCE);
SAME_FIELD(tag, MPI_TAG);
SAME_FIELD(error, MPI_ERROR);
SAME_FIELD(cancelled, _cancelled);
SAME_FIELD(received, _ucount);
static_assert(sizeof(Status) == sizeof(MPI_Status));
static_assert(kSuccess == MPI_SUCCESS && kAny == MPI_ANY_SOURCE && kAny == MPI_ANY_TAG);
static_assert(kUndefined == MPI_UNDEFINED && kSerialized == MPI_THREAD_SERIALIZED);
static_assert(kMostErrorText == MPI_MAX_ERROR_STRING);
static_assert(kMostVersionText == MPI_MAX_LIBRARY_VERSION_STRING);

// A parameter of ours matches theirs: pointers are pointers, integers have the same size.
template <typename Ours, typename Theirs>
constexpr bool kSame =
    sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>;
template <typename... Ours, typename... Theirs>
constexpr bool SameFunction(int (*)(Ours...), int (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) != sizeof...(Theirs)) {
    return false;
  } else {
    return (kSame<Ours, Theirs> && ...);
  }
}
#define X(name, parameters) \
  static_assert(SameFunction(decltype(Library::name){}, decltype(&::MPI_##name){}), "MPI_" #name);
STRINGLINE_MPI_FUNCTIONS(X)
#undef X

TEST(MpiHeader, PredefinedObjectsAreThoseOfTheHeader) {
  // Their names are in the header's macros, whose text shows them.
#define TEXT_OF(...) #__VA_ARGS__
#define TEXT(macro) TEXT_OF(macro)
  const std::string texts[] = {TEXT(MPI_COMM_WORLD),   TEXT(MPI_BYTE),
                               TEXT(MPI_FLOAT),        TEXT(MPI_SUM),
                               TEXT(MPI_REQUEST_NULL), TEXT(MPI_ERRORS_RETURN)};
  const char* const names[] = {
#define X(name, symbol, type) symbol,
      STRINGLINE_MPI_OBJECTS(X)
#undef X
  };
  for (size_t i = 0; i < std::size(names); ++i) {
    EXPECT_NE(texts[i].find(names[i]), std::string::npos) << texts[i] << " and " << names[i];
  }
}

}  // namespace
}  // namespace stringline::mpi
#endif
