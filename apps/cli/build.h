/* cli/build.h - which build this is; CMake fills it in, other builds leave it empty. */
#ifndef CLI_BUILD_H
#define CLI_BUILD_H

#ifdef CLI_HAS_BUILD_INFO
#include "cli_build_info.h"
#endif
#ifndef CLI_BUILD_GIT
#define CLI_BUILD_GIT ""
#endif
#ifndef CLI_BUILD_TYPE
#define CLI_BUILD_TYPE ""
#endif

#endif
