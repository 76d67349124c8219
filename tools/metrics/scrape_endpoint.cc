#include "tools/metrics/scrape_endpoint.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#ifdef STRINGLINE_HAS_PROMETHEUS
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#endif

namespace stringline {
namespace {

// "127.0.0.1:9400" of "9400". InvalidArgument for a text without a port.
absl::StatusOr<std::string> WholeAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  const std::string port = colon == std::string::npos ? address : address.substr(colon + 1);
  int number = 0;
  if (!absl::SimpleAtoi(port, &number) || number < 1 || number > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("`metrics.prometheus`: expected a port, as 9400, or an address, as "
                     "0.0.0.0:9400, got '",
                     address, "'"));
  }
  return colon == std::string::npos ? absl::StrCat("127.0.0.1:", port) : address;
}

}  // namespace

#ifdef STRINGLINE_HAS_PROMETHEUS
namespace {

class PrometheusEndpoint final : public ScrapeEndpoint {
 public:
  explicit PrometheusEndpoint(const std::string& address)
      : registry_(std::make_shared<prometheus::Registry>()), exposer_(address, /*threads=*/1) {
    exposer_.RegisterCollectable(registry_);
  }

  void Set(const StepMetrics& metrics) override {
    const TrainStep& step = metrics.step;
    Gauge("step", "steps done", {}, static_cast<double>(step.step));
    Gauge("loss_nats", "the loss of the step, per target", {}, step.loss_nats);
    Gauge("grad_norm", "the norm of the gradient before clipping", {}, step.grad_norm);
    Gauge("learning_rate", "of the step", {}, step.learning_rate);
    Gauge("step_seconds", "of the step, with data and update", {},
          static_cast<double>(metrics.wall_ns) * 1e-9);
    Gauge("tokens_per_second", "of the step", {}, metrics.tokens_per_second);
    Gauge("bubble", "the mean idle share of a rank", {}, metrics.bubble);
    if (metrics.checkpoint_age_s) {
      Gauge("checkpoint_age_seconds", "since the last checkpoint", {}, *metrics.checkpoint_age_s);
    }
    for (int k = 0; k < kIdleCauses; ++k) {
      Gauge("bubble_by_cause", "the idle share of a rank by its cause",
            {{"cause", NameOf(static_cast<IdleCause>(k))}}, metrics.causes[static_cast<size_t>(k)]);
    }
    for (size_t r = 0; r < metrics.ranks.size(); ++r) {
      const RankMetrics& rank = metrics.ranks[r];
      const prometheus::Labels labels = {{"rank", absl::StrCat(r)}, {"name", rank.name}};
      Gauge("rank_busy", "the share of the step in which the rank computes", labels, rank.busy);
      Gauge("rank_step_seconds", "to the rank's last end", labels,
            static_cast<double>(rank.step_ns) * 1e-9);
      Gauge("rank_waits_seconds", "in which the rank computes nothing", labels,
            static_cast<double>(rank.waits_ns) * 1e-9);
      Gauge("rank_bytes", "allocated for the rank", labels, static_cast<double>(rank.bytes));
    }
  }

 private:
  void Gauge(const char* name, const char* help, const prometheus::Labels& labels, double value) {
    prometheus::BuildGauge()
        .Name(absl::StrCat("stringline_", name))
        .Help(help)
        .Register(*registry_)
        .Add(labels)
        .Set(value);
  }

  const std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Exposer exposer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ScrapeEndpoint>> ScrapeEndpoint::Open(const std::string& address) {
  const absl::StatusOr<std::string> whole = WholeAddress(address);
  if (!whole.ok()) return whole.status();
  try {
    return std::make_unique<PrometheusEndpoint>(*whole);
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("`metrics.prometheus`: nothing can listen at ",
                                               *whole, ": ", error.what(),
                                               "; another port would help"));
  }
}
#else
absl::StatusOr<std::unique_ptr<ScrapeEndpoint>> ScrapeEndpoint::Open(const std::string& address) {
  const absl::StatusOr<std::string> whole = WholeAddress(address);
  if (!whole.ok()) return whole.status();
  return absl::UnimplementedError(
      "`metrics.prometheus`: this build is without prometheus-cpp; `metrics.file` works, and a "
      "build with the library does both");
}
#endif

}  // namespace stringline
