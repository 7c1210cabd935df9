/**
 * Resolves at the first SIGINT or SIGTERM. A second one ends the process at once: somebody who presses Ctrl-C twice means it.
 */
export function interrupted(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let first = true;
    const onSignal = (signal: NodeJS.Signals) => {
      if (!first) process.exit(130);
      first = false;
      resolve(signal);
    };
    process.on('SIGINT', onSignal);
    process.on('SIGTERM', onSignal);
  });
}
