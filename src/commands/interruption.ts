/**
 * Grace of a shutdown: shorter than the grace period of Kubernetes, and longer than any orderly
 * shutdown.
 */
const graceMs = 25_000;

/**
 * Resolves at the first SIGINT or SIGTERM. A second one ends the process at once: a user who
 * presses Ctrl-C twice wants that. A shutdown that hangs ends after its grace.
 */
export function interrupted(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let first = true;
    const onSignal = (signal: NodeJS.Signals) => {
      if (!first) process.exit(130);
      first = false;
      setTimeout(() => {
        process.stderr.write(
          `conversation-operator: not ended within ${graceMs / 1000} s of ${signal}, so it is ended at once\n`,
        );
        process.exit(1);
      }, graceMs).unref();
      resolve(signal);
    };
    process.on('SIGINT', onSignal);
    process.on('SIGTERM', onSignal);
  });
}
