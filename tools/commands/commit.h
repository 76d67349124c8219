// The commit from which the program was built, for --version; commit.cmake writes its source.
#pragma once

namespace stringline {

// "commit 895ac591363a", "commit 895ac591363a with changes", or "commit not known: built outside
// git".
const char* BuiltCommit();

}  // namespace stringline
