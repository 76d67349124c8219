#include "tools/view/rendered_picture.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#ifdef STRINGLINE_HAS_RSVG
#include <cairo-pdf.h>
#include <cairo.h>
#include <dlfcn.h>
#include <librsvg/rsvg.h>

#include <cmath>
#include <memory>

#include "schedlang/base/status.h"
#endif

namespace stringline {

absl::StatusOr<PictureFormat> PictureFormatOf(const std::string& path) {
  if (absl::EndsWithIgnoreCase(path, ".svg")) return PictureFormat::kSvg;
  if (absl::EndsWithIgnoreCase(path, ".pdf")) return PictureFormat::kPdf;
  if (absl::EndsWithIgnoreCase(path, ".png")) return PictureFormat::kPng;
  return absl::InvalidArgumentError(
      absl::StrCat("--picture ", path, ": the ending says the format: .pdf, .png or .svg"));
}

#ifndef STRINGLINE_HAS_RSVG

absl::StatusOr<std::string> Rendered(const std::string& svg, PictureFormat format) {
  if (format == PictureFormat::kSvg) return svg;
  return absl::UnavailableError(
      "this program was built without librsvg, which makes PDF and PNG; install librsvg2-dev and "
      "build it again, or write an .svg");
}

#else

namespace {

constexpr double kPdfDpi = 72, kPngDpi = 192;

// The functions used of librsvg and of its own libraries, GLib and cairo.
struct Rsvg {
  decltype(&rsvg_handle_new_from_data) read;
  decltype(&rsvg_handle_set_dpi) set_dpi;
  decltype(&rsvg_handle_get_intrinsic_size_in_pixels) size;
  decltype(&rsvg_handle_render_document) render;
  decltype(&g_object_unref) unref;
  decltype(&g_error_free) free_error;
  decltype(&cairo_pdf_surface_create_for_stream) pdf;
  decltype(&cairo_image_surface_create) image;
  decltype(&cairo_surface_write_to_png_stream) write_png;
  decltype(&cairo_surface_finish) finish;
  decltype(&cairo_surface_status) status;
  decltype(&cairo_surface_destroy) destroy_surface;
  decltype(&cairo_create) create;
  decltype(&cairo_destroy) destroy;
  decltype(&cairo_set_source_rgb) set_color;
  decltype(&cairo_paint) paint;
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

cairo_status_t Append(void* text, const unsigned char* bytes, unsigned int count) {
  static_cast<std::string*>(text)->append(reinterpret_cast<const char*>(bytes), count);
  return CAIRO_STATUS_SUCCESS;
}

absl::Status StatusOf(const Rsvg& rsvg, const char* what, GError* error) {
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
  GError* error = nullptr;
  const std::unique_ptr<RsvgHandle, decltype(rsvg.unref)> handle(
      rsvg.read(reinterpret_cast<const guint8*>(svg.data()), svg.size(), &error), rsvg.unref);
  if (handle == nullptr) return StatusOf(rsvg, "the picture cannot be read", error);
  rsvg.set_dpi(handle.get(), is_pdf ? kPdfDpi : kPngDpi);
  double width = 0, height = 0;
  if (!rsvg.size(handle.get(), &width, &height)) {
    return StatusOf(rsvg, "the picture has no size", nullptr);
  }
  std::string bytes;
  const std::unique_ptr<cairo_surface_t, decltype(rsvg.destroy_surface)> surface(
      is_pdf ? rsvg.pdf(&Append, &bytes, width, height)
             : rsvg.image(CAIRO_FORMAT_RGB24, static_cast<int>(std::ceil(width)),
                          static_cast<int>(std::ceil(height))),
      rsvg.destroy_surface);
  const std::unique_ptr<cairo_t, decltype(rsvg.destroy)> canvas(rsvg.create(surface.get()),
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
  const cairo_status_t status = rsvg.status(surface.get());
  if (status == CAIRO_STATUS_SUCCESS && !bytes.empty()) return bytes;
  return absl::ResourceExhaustedError(
      "cairo: the picture is too large for PNG and PDF; a smaller --width or fewer --ranks help");
}

#endif

}  // namespace stringline
