# cmake -DOUT=FILE -DSOURCE=… -DGIT=… -P commit.cmake: the commit of the source tree as a C++ source,
# written anew only after a change; as words alone where FILE ends in .txt. A source distribution has
# these words as a file (tools/wheel). A tree without it must itself be a checkout: a checkout around
# the tree does not count.
set(words "commit not known: built outside git")
set(carried "${SOURCE}/tools/commands/commit.txt")
if(EXISTS "${carried}")
  file(READ "${carried}" words)
elseif(GIT)
  execute_process(COMMAND "${GIT}" rev-parse --show-toplevel WORKING_DIRECTORY "${SOURCE}"
    OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(REAL_PATH "${SOURCE}" source)
  if(top STREQUAL source)
    execute_process(COMMAND "${GIT}" rev-parse --short=12 HEAD WORKING_DIRECTORY "${SOURCE}"
      OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    execute_process(COMMAND "${GIT}" status --porcelain --untracked-files=no
      WORKING_DIRECTORY "${SOURCE}" OUTPUT_VARIABLE changes ERROR_QUIET)
  endif()
  if(commit)
    set(words "commit ${commit}")
    if(changes)
      string(APPEND words " with changes")
    endif()
  endif()
endif()
if(OUT MATCHES "[.]txt$")
  file(WRITE "${OUT}" "${words}")
  return()
endif()
set(text "// Made by tools/commands/commit.cmake.\n#include \"tools/commands/commit.h\"\n\nnamespace stringline {\n\n")
string(APPEND text "const char* BuiltCommit() { return \"${words}\"; }\n\n}  // namespace stringline\n")
file(CONFIGURE OUTPUT "${OUT}" CONTENT "${text}" @ONLY)
