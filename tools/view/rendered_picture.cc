// librsvg is opened at run time, and its few functions are declared here: no header is needed to
// build, and a program built anywhere makes PDF and PNG wherever the library is.
#include "tools/view/rendered_picture.h"

#include <dlfcn.h>

#include <cmath>
#include <cstdint>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"

namespace stringline {

absl::StatusOr<PictureFormat> PictureFormatOf(const std::string& path) {
  if (absl::EndsWithIgnoreCase(path, ".svg")) return PictureFormat::kSvg;
  if (absl::EndsWithIgnoreCase(path, ".pdf")) return PictureFormat::kPdf;
  if (absl::EndsWithIgnoreCase(path, ".png")) return PictureFormat::kPng;
  return absl::InvalidArgumentError(
      absl::StrCat("--picture ", path, ": the ending says the format: .pdf, .png or .svg"));
}

namespace {

constexpr double kPdfDpi = 72, kPngDpi = 192;

// Types of librsvg, of GLib and of cairo, as their interfaces for C have them.
struct RsvgHandle;
struct CairoSurface;
struct CairoCanvas;
struct GlibError {
  uint32_t domain;
  int code;
  char* message;
};
struct RsvgRectangle {
  double x, y, width, height;
};
using CairoStatus = int;
constexpr CairoStatus kCairoSuccess = 0;  // CAIRO_STATUS_SUCCESS
constexpr int kRgb24 = 1;                 // CAIRO_FORMAT_RGB24
using CairoWrite = CairoStatus (*)(void* closure, const unsigned char* bytes, unsigned int count);

// The functions used of the three libraries.
struct Rsvg {
  RsvgHandle* (*read)(const uint8_t* bytes, size_t count, GlibError** error);
  void (*set_dpi)(RsvgHandle* handle, double dpi);
  int (*size)(RsvgHandle* handle, double* width, double* height);
  int (*render)(RsvgHandle* handle, CairoCanvas* canvas, const RsvgRectangle* page,
                GlibError** error);
  void (*unref)(void* handle);
  void (*free_error)(GlibError* error);
  CairoSurface* (*pdf)(CairoWrite write, void* closure, double width, double height);
  CairoSurface* (*image)(int format, int width, int height);
  CairoStatus (*write_png)(CairoSurface* surface, CairoWrite write, void* closure);
  void (*finish)(CairoSurface* surface);
  CairoStatus (*status)(CairoSurface* surface);
  void (*destroy_surface)(CairoSurface* surface);
  CairoCanvas* (*create)(CairoSurface* surface);
  void (*destroy)(CairoCanvas* canvas);
  void (*set_color)(CairoCanvas* canvas, double red, double green, double blue);
  void (*paint)(CairoCanvas* canvas);
};

template <typename Function>
absl::Status Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function != nullptr) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("librsvg: it has no ", name, "; it is too old"));
}

absl::StatusOr<Rsvg> OpenRsvg() {
  constexpr const char* kLibrary = "librsvg-2.so.2";
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("librsvg, which makes PDF and PNG, cannot be opened (", dlerror(),
                     "); install librsvg2-2, or write an .svg"));
  }
  Rsvg rsvg = {};
  SL_RETURN_IF_ERROR(Find(library, "rsvg_handle_new_from_data", &rsvg.read));
  SL_RETURN_IF_ERROR(Find(library, "rsvg_handle_set_dpi", &rsvg.set_dpi));
  SL_RETURN_IF_ERROR(Find(library, "rsvg_handle_get_intrinsic_size_in_pixels", &rsvg.size));
  SL_RETURN_IF_ERROR(Find(library, "rsvg_handle_render_document", &rsvg.render));
  SL_RETURN_IF_ERROR(Find(library, "g_object_unref", &rsvg.unref));
  SL_RETURN_IF_ERROR(Find(library, "g_error_free", &rsvg.free_error));
  SL_RETURN_IF_ERROR(Find(library, "cairo_pdf_surface_create_for_stream", &rsvg.pdf));
  SL_RETURN_IF_ERROR(Find(library, "cairo_image_surface_create", &rsvg.image));
  SL_RETURN_IF_ERROR(Find(library, "cairo_surface_write_to_png_stream", &rsvg.write_png));
  SL_RETURN_IF_ERROR(Find(library, "cairo_surface_finish", &rsvg.finish));
  SL_RETURN_IF_ERROR(Find(library, "cairo_surface_status", &rsvg.status));
  SL_RETURN_IF_ERROR(Find(library, "cairo_surface_destroy", &rsvg.destroy_surface));
  SL_RETURN_IF_ERROR(Find(library, "cairo_create", &rsvg.create));
  SL_RETURN_IF_ERROR(Find(library, "cairo_destroy", &rsvg.destroy));
  SL_RETURN_IF_ERROR(Find(library, "cairo_set_source_rgb", &rsvg.set_color));
  SL_RETURN_IF_ERROR(Find(library, "cairo_paint", &rsvg.paint));
  return rsvg;
}

CairoStatus Append(void* text, const unsigned char* bytes, unsigned int count) {
  static_cast<std::string*>(text)->append(reinterpret_cast<const char*>(bytes), count);
  return kCairoSuccess;
}

absl::Status StatusOf(const Rsvg& rsvg, const char* what, GlibError* error) {
  const absl::Status status = absl::InternalError(
      absl::StrCat("librsvg: ", what, ": ", error == nullptr ? "no reason given" : error->message));
  if (error != nullptr) rsvg.free_error(error);
  return status;
}

}  // namespace

absl::StatusOr<std::string> Rendered(const std::string& svg, PictureFormat format) {
  if (format == PictureFormat::kSvg) return svg;
  SL_ASSIGN_OR_RETURN(const Rsvg rsvg, OpenRsvg());
  const bool is_pdf = format == PictureFormat::kPdf;
  GlibError* error = nullptr;
  const std::unique_ptr<RsvgHandle, decltype(rsvg.unref)> handle(
      rsvg.read(reinterpret_cast<const uint8_t*>(svg.data()), svg.size(), &error), rsvg.unref);
  if (handle == nullptr) return StatusOf(rsvg, "the picture cannot be read", error);
  rsvg.set_dpi(handle.get(), is_pdf ? kPdfDpi : kPngDpi);
  double width = 0, height = 0;
  if (!rsvg.size(handle.get(), &width, &height)) {
    return StatusOf(rsvg, "the picture has no size", nullptr);
  }
  std::string bytes;
  const std::unique_ptr<CairoSurface, decltype(rsvg.destroy_surface)> surface(
      is_pdf ? rsvg.pdf(&Append, &bytes, width, height)
             : rsvg.image(kRgb24, static_cast<int>(std::ceil(width)),
                          static_cast<int>(std::ceil(height))),
      rsvg.destroy_surface);
  const std::unique_ptr<CairoCanvas, decltype(rsvg.destroy)> canvas(rsvg.create(surface.get()),
                                                                    rsvg.destroy);
  if (!is_pdf) {
    rsvg.set_color(canvas.get(), 1, 1, 1);
    rsvg.paint(canvas.get());
  }
  const RsvgRectangle page = {0, 0, width, height};
  if (!rsvg.render(handle.get(), canvas.get(), &page, &error)) {
    return StatusOf(rsvg, "the picture cannot be drawn", error);
  }
  if (!is_pdf) rsvg.write_png(surface.get(), &Append, &bytes);
  rsvg.finish(surface.get());
  const CairoStatus status = rsvg.status(surface.get());
  if (status == kCairoSuccess && !bytes.empty()) return bytes;
  return absl::ResourceExhaustedError(
      "cairo: the picture is too large for PNG and PDF; a smaller --width or fewer --ranks help");
}

}  // namespace stringline
