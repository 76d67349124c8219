// An SVG as PDF or PNG, by librsvg. The library is opened at its first use: programs start without
// it, and name the missing library when they need it.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace stringline {

enum class PictureFormat { kSvg, kPdf, kPng };

// By the ending of the file's name. Error: another ending.
absl::StatusOr<PictureFormat> PictureFormatOf(const std::string& path);

// The picture in this format: a page of its size in points, or 192 pixels an inch. Letters come
// from the fonts of this machine, Helvetica or Arial if present. Errors: Unavailable without
// librsvg; librsvg's own errors about the SVG.
absl::StatusOr<std::string> Rendered(const std::string& svg, PictureFormat format);

}  // namespace stringline
