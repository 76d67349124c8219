// An SVG as PDF or PNG, by librsvg. The library is opened when it is needed: programs start without
// it, and say what is missing where it is not there.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace stringline {

enum class PictureFormat { kSvg, kPdf, kPng };

// By the ending of the file's name. Error: another one.
absl::StatusOr<PictureFormat> PictureFormatOf(const std::string& path);

// The picture in that format: a page of its size in points, or 192 pixels an inch. Letters come
// from the fonts of this machine, Helvetica or Arial if it has them. Errors: Unavailable without
// librsvg; what it says of the SVG.
absl::StatusOr<std::string> Rendered(const std::string& svg, PictureFormat format);

}  // namespace stringline
