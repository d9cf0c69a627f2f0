//===- HostDriver.h - Devices made of host memory and threads ---*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each device is a bounded arena with workers of its own. Copies between the
// arena and the host store are real. Commands are executed by the thread that
// issues them, with the help of the device's workers in launches; a command is
// complete when the call returns.
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_DRIVERS_HOST_HOSTDRIVER_H
#define RUNTIME_DRIVERS_HOST_HOSTDRIVER_H

#include "runtime/hal/Driver.h"

#include <chrono>

namespace harmony::runtime {

/// Throws NoDevice when memory or processor are not there.
std::unique_ptr<Driver> createHostDriver(const DriverOptions &options);

/// How long compute queues spin before they sleep: longer than others where no
/// thread that computes or copies wants for a processor.
std::chrono::nanoseconds computeSpin(const DriverOptions &options);

} // namespace harmony::runtime

#endif // RUNTIME_DRIVERS_HOST_HOSTDRIVER_H
