//===- Picture.cpp - A plan as a picture ----------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Picture.h"

#include "compiler/Planner/PictureBars.h"
#include "compiler/Planner/SteadyState.h"
#include "compiler/Planner/Svg.h"
#include "compiler/Planner/Text.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace harmony::planner {

namespace {

constexpr double pageWidth = 1600, plotLeft = 150, plotRight = 1580;
constexpr double plotWidth = plotRight - plotLeft;
constexpr double rowHeight = 13, rowPitch = 15, computeHeight = 18;
constexpr double phaseHeight = 13, memoryHeight = 66;
constexpr double smallFont = 9, textFont = 11;
constexpr double titledWidth = 12; ///< bars from this width on have a tooltip

constexpr const char *style = R"(<style>
text{font-family:sans-serif;font-size:11px;fill:#222}
.h{font-size:17px;font-weight:bold}.d{font-size:12px;font-weight:bold}
.n{font-size:9px}.w{font-size:9px;fill:#fff}.g{fill:#666}
.a0{fill:#4477aa}.a1{fill:#ccbb44}.a2{fill:#228833}.a3{fill:#aa3377}
.a4{fill:#222222}.a5{fill:#66ccee}.a6{fill:#ee6677}.a7{fill:#f0a050}
.a8{fill:#bbbbbb}.a9{fill:#777777}
.m0{fill:#8fa8c8}.m1{fill:#d4a0bd}.m2{fill:#a5cfa8}.m3{fill:#dcdcdc}
.p{fill:#e4e4ea;stroke:#fff;stroke-width:1}.q{fill:#c4c4cc}
.back{fill:#f7f7f7}.blank{fill:#fff}
.highest{fill:none;stroke:#333;stroke-width:1}
.capacity{stroke:#cc2222;stroke-width:1;stroke-dasharray:6 3}
.tick{stroke:#d5d5d5;stroke-width:1}.edge{stroke:#999;stroke-width:1}
.pale{opacity:.45}
</style>
)";

bool isDark(Activity activity) {
  return activity == Activity::Forward || activity == Activity::Backward ||
         activity == Activity::Update || activity == Activity::Release ||
         activity == Activity::Output;
}

std::string cssClass(char letter, int index) {
  return letter + std::to_string(index);
}

class Picture {
public:
  Picture(const Planned &planned, const Problem &problem,
          const Machine &machine)
      : planned(planned), plan(planned.plan), problem(problem),
        machine(machine), state(planned.plan, problem, machine) {
    // A plan that takes no time still has a picture.
    scale = state.period > 0 ? plotWidth / state.period : 0;
  }

  std::string draw(const std::string &model) {
    drawHead(model);
    double top = y;
    Svg rows;
    std::swap(rows, svg);
    for (int d = 0; d < static_cast<int>(machine.devices.size()); ++d)
      drawDevice(d);
    drawHost();
    std::swap(rows, svg);
    drawAxis(top, y);
    svg.text += rows.text;
    double height = y + 26;
    std::string size = svgNumber(pageWidth) + "\" height=\"" +
                       svgNumber(height) + "\" viewBox=\"0 0 " +
                       svgNumber(pageWidth) + " " + svgNumber(height);
    return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg "
           "xmlns=\"http://www.w3.org/2000/svg\" width=\"" +
           size + "\">\n" + style +
           "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n" + svg.text +
           "</svg>\n";
  }

private:
  const Planned &planned;
  const Plan &plan;
  const Problem &problem;
  const Machine &machine;
  SteadyState state;
  Svg svg;
  double scale = 0; ///< pixels per second
  double y = 0;     ///< top of what is drawn next

  std::string traffic(Traffic kind) const {
    return bytesText(plan.traffic[static_cast<int>(kind)]);
  }

  void drawHead(const std::string &model) {
    bool several = machine.devices.size() > 1;
    svg.label(
        20, 30,
        (model.empty() ? "" : model + ", ") + plan.problem + ": batch " +
            std::to_string(plan.batch) + " on " + machine.name + ", " +
            countText(static_cast<int64_t>(machine.devices.size()), "device"),
        "h");
    svg.label(
        20, 50,
        "one iteration " + secondsText(plan.seconds) + ", of which the " +
            (several ? "busiest device" : "device") + " computes " +
            secondsText(plan.computeSeconds) + "; swapped " +
            traffic(Traffic::SwapIn) + " in, " + traffic(Traffic::SwapOut) +
            " out" +
            (several ? "; between devices " + traffic(Traffic::Peer) : "") +
            "; input " + traffic(Traffic::Input),
        "t");
    svg.label(20, 66, planText(planned), "t");
    y = 78;
    drawLegend();
  }

  void drawLegend() {
    std::set<Activity> used;
    for (const Interval &interval : state.intervals)
      if (interval.begin < interval.end)
        for (const Stretch &stretch : state.stretches(interval))
          used.insert(stretch.activity);
    double x = 20;
    auto entry = [&](const std::string &css, const std::string &what) {
      svg.rectangle(x, y, 12, 12, css);
      svg.label(x + 17, y + 10, what, "t");
      x += 17 + svgTextWidth(what, textFont) + 16;
    };
    for (Activity activity : used)
      entry(cssClass('a', static_cast<int>(activity)), name(activity));
    entry("a0 pale", "of the iteration before or after");
    y += 18;
    x = 20;
    static const char *const holds[holdingCount] = {
        "parameters and optimizer state", "gradients",
        "activations and their gradients", "workspaces and scalars"};
    for (int h = 0; h < holdingCount; ++h)
      entry(cssClass('m', h), holds[h]);
    svg.line(x, y + 6, x + 22, y + 6, "highest");
    svg.label(x + 27, y + 10, "highest address in use", "t");
    x += 27 + svgTextWidth("highest address in use", textFont) + 16;
    bool capacity = false;
    for (int d = 0; d < static_cast<int>(machine.devices.size()); ++d)
      capacity |= showsCapacity(d);
    if (capacity) {
      svg.line(x, y + 6, x + 22, y + 6, "capacity");
      svg.label(x + 27, y + 10, "capacity", "t");
    }
    y += 34;
  }

  /// Vertical lines at round times, with their labels above and below.
  void drawAxis(double top, double bottom) {
    double unit = state.period >= 1 ? 1 : state.period >= 1e-3 ? 1e-3 : 1e-6;
    const char *unitName = unit == 1 ? " s" : unit == 1e-3 ? " ms" : " us";
    double raw = state.period / unit / 12;
    double power = std::pow(10, std::floor(std::log10(std::max(raw, 1e-12))));
    double step = power;
    for (double factor : {1.0, 2.0, 5.0, 10.0})
      if ((step = power * factor) >= raw * (1 - 1e-9))
        break;
    int decimals =
        std::max(0, -static_cast<int>(std::floor(std::log10(step) + 1e-9)));
    svg.open("axis");
    for (int i = 0; scale > 0; ++i) {
      double time = i * step * unit;
      if (time > state.period * (1 + 1e-9))
        break;
      double x = plotLeft + time * scale;
      svg.line(x, top - 4, x, bottom, "tick");
      char text[48];
      std::snprintf(text, sizeof text, "%.*f%s", decimals, i * step, unitName);
      // The last label may reach over the edge.
      const char *anchor = x > plotRight - 30 ? "end" : "middle";
      svg.label(anchor[0] == 'e' ? x + 10 : x, top - 8, text, "n g", anchor);
      svg.label(anchor[0] == 'e' ? x + 10 : x, bottom + 12, text, "n g",
                anchor);
    }
    svg.line(plotLeft, top - 4, plotLeft, bottom, "edge");
    svg.line(plotRight, top - 4, plotRight, bottom, "edge");
    svg.close();
  }

  /// An interval and its copies where the period has them.
  template <typename Add>
  void fold(double begin, double end, Add add) const {
    if (state.period <= 0)
      return;
    double shift = -state.period * std::floor(end / state.period);
    for (; begin + shift < state.period; shift += state.period) {
      double from = std::max(0.0, begin + shift);
      double to = std::min(state.period, end + shift);
      if (to > from)
        add(from * scale, to * scale, shift != 0);
    }
  }

  std::string barText(const Event &event, int64_t iteration) const {
    if (event.kind == EventKind::Run || event.phase >= 0)
      return std::to_string(iteration);
    if (event.object >= 0 &&
        event.object < static_cast<int>(problem.tensors.size()) &&
        event.kind != EventKind::LoadScalar &&
        event.kind != EventKind::StoreScalar)
      return problem.tensors[event.object].name;
    return "";
  }

  std::vector<Bar> barsOf(int queue) const {
    std::vector<Bar> bars;
    for (const Interval &interval : state.intervals) {
      const Event &event = plan.events[interval.event];
      if (event.queue != queue)
        continue;
      for (const Stretch &stretch : state.stretches(interval))
        fold(stretch.begin, stretch.end,
             [&](double from, double to, bool pale) {
               bars.push_back({stretch.activity, from, to, pale,
                               barText(event, interval.iteration),
                               interval.event, interval.iteration});
             });
    }
    sortByTime(bars);
    return bars;
  }

  /// Of a path: a rectangle whose top is y.
  std::string box(double x, double width, double height) const {
    return "M" + svgNumber(x) + " " + svgNumber(y) + "h" + svgNumber(width) +
           "v" + svgNumber(height) + "h-" + svgNumber(width) + "z";
  }

  void drawRow(int queue, const std::string &label, double height) {
    svg.label(plotLeft - 8, y + height - 3, label, "t", "end");
    svg.open("row", "queue" + std::to_string(queue), label);
    svg.rectangle(plotLeft, y, plotWidth, height, "back");
    std::map<std::pair<Activity, bool>, std::string> paths;
    Svg labels;
    for (const Bar &bar : coarsen(barsOf(queue), plotWidth)) {
      double width = bar.end - bar.begin;
      // Neighbours stand apart where there is room.
      double drawn = width >= separateWidth ? width - 0.6 : width;
      double x = plotLeft + bar.begin;
      std::string css = cssClass('a', static_cast<int>(bar.activity));
      if (bar.event >= 0 && width >= titledWidth) {
        svg.rectangle(x, y, drawn, height, bar.pale ? css + " pale" : css,
                      titleOf(bar));
        if (svgTextWidth(bar.title, smallFont) + 3 <= drawn &&
            !bar.title.empty())
          labels.label(x + drawn / 2, y + height / 2 + 3, bar.title,
                       isDark(bar.activity) && !bar.pale ? "w" : "n", "middle");
        continue;
      }
      paths[{bar.activity, bar.pale}] += box(x, drawn, height);
    }
    for (const auto &[kind, data] : paths) {
      std::string css = cssClass('a', static_cast<int>(kind.first));
      svg.path(data, kind.second ? css + " pale" : css);
    }
    svg.text += labels.text;
    svg.close();
    y += height + rowPitch - rowHeight;
  }

  std::string titleOf(const Bar &bar) const {
    const Interval &interval = state.at(bar.event, bar.iteration);
    const Event &event = plan.events[bar.event];
    std::string text = describe(plan, problem, bar.event);
    if (event.trips > 1)
      text += ", microbatch " + std::to_string(bar.iteration);
    text += ": ";
    text += event.kind == EventKind::Run ? std::string(name(bar.activity)) + " "
                                         : "";
    text += secondsText((bar.end - bar.begin) / scale);
    if (isTransfer(event.kind))
      text += ", " + bytesText(event.bytes) + " in " +
              secondsText(interval.end - interval.begin);
    return text;
  }

  /// The phases of a device, from the first microbatch to the last.
  void drawPhases(int device) {
    struct Span {
      double begin = 1e300, end = -1e300;
    };
    std::map<int, Span> spans; // by phase
    for (const Interval &interval : state.intervals) {
      const Event &event = plan.events[interval.event];
      if (event.kind != EventKind::Run || event.device != device)
        continue;
      Span &span = spans[event.phase];
      span.begin = std::min(span.begin, interval.begin);
      span.end = std::max(span.end, interval.end);
    }
    svg.open("phases", "phases" + std::to_string(device));
    std::vector<std::pair<double, double>> narrow;
    for (const auto &[p, span] : spans) {
      const Phase &phase = plan.phases[p];
      std::string layers = std::to_string(phase.firstLayer);
      if (phase.lastLayer != phase.firstLayer)
        layers += "-" + std::to_string(phase.lastLayer);
      std::string letter = phase.kind == PhaseKind::Forward    ? "F"
                           : phase.kind == PhaseKind::Backward ? "B"
                                                               : "T";
      std::string shorter = letter + " " + layers;
      std::string longer = shorter + ": " + std::to_string(phase.trips) +
                           " \u00d7 " + std::to_string(phase.microbatch);
      fold(span.begin, span.end, [&](double from, double to, bool pale) {
        double width = to - from;
        if (width < separateWidth) {
          narrow.push_back({from, width});
          return;
        }
        svg.rectangle(
            plotLeft + from, y, width, phaseHeight, pale ? "p pale" : "p",
            width >= titledWidth ? longer + " samples" : std::string());
        for (const std::string &text : {longer, shorter, letter})
          if (svgTextWidth(text, smallFont) + 3 <= width) {
            svg.label(plotLeft + (from + to) / 2, y + phaseHeight - 3, text,
                      "n", "middle");
            break;
          }
      });
    }
    // As in the rows, no more than one a pixel.
    std::sort(narrow.begin(), narrow.end());
    std::string data;
    double drawnTo = 0;
    for (const auto &[from, width] : narrow)
      if (from >= drawnTo) {
        drawnTo = from + std::max(pixel, width);
        data += box(plotLeft + from, std::max(width - 0.4, 0.6), phaseHeight);
      }
    if (!data.empty())
      svg.path(data, "q");
    svg.close();
    svg.label(plotLeft - 8, y + phaseHeight - 3, "layers: microbatches", "t g",
              "end");
    y += phaseHeight + 1;
  }

  std::string rowName(int index) const {
    const Queue &queue = plan.queues[index];
    const char *what = queue.lane == 1   ? ", values"
                       : queue.lane == 2 ? ", gradients"
                                         : ", weights";
    switch (queue.kind) {
    case QueueKind::Compute:
      return "compute";
    case QueueKind::In:
      return std::string("in") + what;
    case QueueKind::Out:
      return std::string("out") + what;
    case QueueKind::Peer:
      break;
    case QueueKind::Host:
      return "updates";
    }
    std::set<int> destinations;
    for (const Event &event : plan.events)
      if (event.queue == index)
        destinations.insert(event.device);
    return (destinations.size() == 1
                ? "to device " + std::to_string(*destinations.begin())
                : std::string("to devices")) +
           what;
  }

  void drawHeader(const std::string &text) {
    svg.rectangle(0, y, pageWidth, 17, "blank"); // over the axis' lines
    svg.label(20, y + 12, text, "d");
    y += 18;
  }

  /// In order of lanes.
  std::vector<int> queuesOf(QueueKind kind, int device) const {
    std::vector<int> queues;
    for (int q = 0; q < static_cast<int>(plan.queues.size()); ++q)
      if (plan.queues[q].kind == kind &&
          (kind == QueueKind::Host || plan.queues[q].device == device))
        queues.push_back(q);
    std::stable_sort(queues.begin(), queues.end(), [&](int a, int b) {
      return plan.queues[a].lane < plan.queues[b].lane;
    });
    return queues;
  }

  void drawDevice(int device) {
    double computes = 0;
    for (const Interval &interval : state.intervals) {
      const Event &event = plan.events[interval.event];
      if (event.device == device &&
          plan.queues[event.queue].kind == QueueKind::Compute)
        computes += interval.end - interval.begin;
    }
    int64_t peak = peakOf(device);
    int64_t capacity = machine.devices[device].capacity;
    drawHeader(
        "device " + std::to_string(device) + ": computes " +
        percentText(state.period > 0 ? computes / state.period : 0) +
        " of the time; peak " + bytesText(peak) + " of " + bytesText(capacity) +
        " (" +
        percentText(static_cast<double>(peak) / static_cast<double>(capacity)) +
        ")");
    drawPhases(device);
    for (QueueKind kind :
         {QueueKind::Compute, QueueKind::In, QueueKind::Out, QueueKind::Peer})
      for (int q : queuesOf(kind, device))
        drawRow(q, rowName(q),
                kind == QueueKind::Compute ? computeHeight : rowHeight);
    drawMemory(device);
    y += 12;
  }

  void drawHost() {
    std::vector<int> queues = queuesOf(QueueKind::Host, hostEndpoint);
    drawHeader("host: store of " + bytesText(plan.hostBytes));
    for (size_t i = 0; i < queues.size(); ++i)
      drawRow(queues[i],
              queues.size() > 1 ? rowName(queues[i]) + " " + std::to_string(i)
                                : rowName(queues[i]),
              rowHeight);
    y += 2;
  }

  /// By column of the plot the point at which most is live, with the highest
  /// address of all points there.
  std::vector<MemoryPoint> memoryColumns(int device) const {
    std::vector<MemoryPoint> points = state.memory(device);
    int columns = static_cast<int>(plotWidth);
    std::vector<MemoryPoint> most(columns);
    for (size_t i = 0; i < points.size(); ++i) {
      double end = i + 1 < points.size() ? points[i + 1].begin : state.period;
      int from =
          std::clamp(static_cast<int>(points[i].begin * scale), 0, columns - 1);
      int to =
          std::clamp(static_cast<int>(end * scale - 1e-6), from, columns - 1);
      for (int c = from; c <= to; ++c) {
        int64_t highest = std::max(most[c].highest, points[i].highest);
        if (points[i].live() > most[c].live())
          most[c] = points[i];
        most[c].highest = highest;
      }
    }
    return most;
  }

  int64_t peakOf(int device) const {
    return device < static_cast<int>(plan.peakBytes.size())
               ? plan.peakBytes[device]
               : 0;
  }

  /// Where next to nothing of a device is used, its capacity is off the scale.
  bool showsCapacity(int device) const {
    return machine.devices[device].capacity <=
           3 * std::max<int64_t>(peakOf(device), 1);
  }

  void drawMemory(int device) {
    int64_t peak = peakOf(device);
    int64_t capacity = machine.devices[device].capacity;
    bool showCapacity = showsCapacity(device);
    double top = static_cast<double>(
        std::max<int64_t>(showCapacity ? std::max(capacity, peak) : peak, 1));
    double height = memoryHeight, base = y + height;
    auto yOf = [&](int64_t bytes) {
      return base - static_cast<double>(bytes) / top * height;
    };
    svg.label(plotLeft - 8, y + 11, "memory", "t", "end");
    svg.label(plotLeft - 8, y + 23,
              showCapacity ? bytesText(static_cast<int64_t>(top))
                           : "up to " + bytesText(static_cast<int64_t>(top)),
              "n g", "end");
    svg.open("memory", "memory" + std::to_string(device),
             "device " + std::to_string(device) + ": peak " +
                 std::to_string(peak) + " of " + std::to_string(capacity) +
                 " bytes");
    svg.rectangle(plotLeft, y, plotWidth, height, "back");
    std::vector<MemoryPoint> columns = memoryColumns(device);
    for (int h = 0; h < holdingCount; ++h)
      if (std::string data = holdingPath(columns, h, yOf); !data.empty())
        svg.path(data, cssClass('m', h));
    drawHighest(columns, yOf);
    if (showCapacity)
      svg.line(plotLeft, yOf(capacity), plotRight, yOf(capacity), "capacity");
    svg.close();
    y += height + 2;
  }

  /// From the sum of what lies below a holding to that with it, for every
  /// stretch of columns that have any of it.
  template <typename Height>
  std::string holdingPath(const std::vector<MemoryPoint> &columns, int holding,
                          Height yOf) const {
    auto heightAt = [&](int column, int last) {
      int64_t sum = 0;
      for (int h = 0; h <= last; ++h)
        sum += columns[column].bytes[h];
      return svgNumber(yOf(sum));
    };
    auto xOf = [](int column) { return svgNumber(plotLeft + column); };
    int count = static_cast<int>(columns.size());
    std::string data;
    for (int from = 0, to = 0; from < count; from = to + 1) {
      for (to = from; to < count && columns[to].bytes[holding] != 0;)
        ++to;
      if (to == from)
        continue;
      std::string last = heightAt(from, holding);
      data += "M" + xOf(from) + " " + last;
      // Along the upper edge, and back along the lower one.
      auto step = [&](int x, int column, int edge) {
        std::string at = heightAt(column, edge);
        if (at != last)
          data += "H" + xOf(x) + "V" + at;
        last = at;
      };
      for (int c = from + 1; c < to; ++c)
        step(c, c, holding);
      for (int c = to - 1; c >= from; --c)
        step(c + 1, c, holding - 1);
      data += "H" + xOf(from) + "z";
    }
    return data;
  }

  template <typename Height>
  void drawHighest(const std::vector<MemoryPoint> &columns, Height yOf) {
    std::string points, last;
    for (size_t c = 0; c < columns.size(); ++c) {
      std::string at = svgNumber(yOf(columns[c].highest));
      if (at == last)
        continue;
      std::string x = svgNumber(plotLeft + static_cast<double>(c));
      if (!last.empty())
        points += x + "," + last + " ";
      points += x + "," + at + " ";
      last = at;
    }
    points += svgNumber(plotRight) + "," + last;
    svg.text += "<polyline points=\"" + points + "\" class=\"highest\"/>\n";
  }
};

} // namespace

std::string drawPlan(const Planned &planned, const Problem &problem,
                     const Machine &machine, const std::string &model) {
  return Picture(planned, problem, machine).draw(model);
}

} // namespace harmony::planner
