/** Less than what Kubernetes waits before it kills a pod, and more than all that ends in good order takes. */
const graceMs = 25_000;

/**
 * Resolves at the first SIGINT or SIGTERM. A second one ends the process at once: somebody who presses Ctrl-C twice means it. So
 * does a shutdown that hangs, once its grace is over.
 */
export function interrupted(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let first = true;
    const onSignal = (signal: NodeJS.Signals) => {
      if (!first) process.exit(130);
      first = false;
      setTimeout(() => {
        process.stderr.write(`conversation-operator: not ended within ${graceMs / 1000} s of ${signal}, so it is cut short\n`);
        process.exit(1);
      }, graceMs).unref();
      resolve(signal);
    };
    process.on('SIGINT', onSignal);
    process.on('SIGTERM', onSignal);
  });
}
