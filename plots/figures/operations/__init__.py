"""One compressed operation (activations, gradients, embedding) against its uncompressed form: speed-up, time, error, break-even."""
