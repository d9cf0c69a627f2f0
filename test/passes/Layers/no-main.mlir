// RUN: harmony-opt %s --harmony-form-layers --verify-diagnostics

// expected-error@+1 {{no function @main: the module is not a normalised model}}
module {
}
