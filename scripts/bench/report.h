#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "options.h"
#include "tensor/backend.h"

namespace verlcpp::bench {

/// Which limit a row is held against (roofline.h); kNone: there is none for it.
enum class Bound { kMatmul, kBandwidth, kLink, kNone };

/// One line of a result: what ran and how long each sample of it took.
struct Row {
  std::string name;
  std::vector<double> seconds;
  Bound bound = Bound::kNone;
  double flops = 0, bytes = 0;  // on paper; 0: not counted
  int64_t tokens = 0;           // what throughput counts; 0: none is given
  int64_t peak_bytes = 0;       // of the backend during the row; 0: not looked at
  /// Model FLOPs of whole passes, so that the fraction is an MFU over the measured matmul limit.
  bool whole_pass = false;
  // Of movement between ranks: the message, what counts for its bus bandwidth, and what has to
  // leave one GPU. `bytes` are then those of one GPU's memory.
  double message_bytes = 0, bus_bytes = 0, link_bytes = 0;
  std::string left_out = {};  // why nothing was measured; "": it was
};

/// Samples of `body`, which enqueues work. Each sample waits for the device before and after, and
/// enqueues the same work as often as makes it last options.sample_milliseconds (once where
/// `once`); it counts as the mean of those. Small tensors stay in the device's cache meanwhile, so
/// a row of few bytes can go beyond the limit of memory.
std::vector<double> measure(Backend& backend, const Options& options, bool once,
                            const std::function<void()>& body);

/// Median; the mean of the two in the middle of an even number.
double median(std::vector<double> values);

/// Row's part of its limit, or a negative number where there is none: off a GPU, or for products of
/// other numbers than bfloat16.
double fraction_of_limit(const Row& row, const Options& options);

/// Prints the table, and writes the JSON where options ask for it: all samples, what was counted on
/// paper, shapes, limits, device and versions. DeviceError when the file cannot be written.
void report(const Options& options, const std::vector<Row>& rows);

}  // namespace verlcpp::bench
