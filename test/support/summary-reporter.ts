import type { AggregatedResult, Reporter } from '@jest/reporters';

/** Ends a run with one plain line, so that a script can read the outcome without knowing jest. */
export default class SummaryReporter implements Pick<Reporter, 'onRunComplete'> {
  onRunComplete(_contexts: unknown, results: AggregatedResult): void {
    const failedSuites = results.numRuntimeErrorTestSuites;
    const skipped = results.numPendingTests > 0 ? `, ${String(results.numPendingTests)} skipped` : '';
    process.stdout.write(`${String(results.numPassedTests)} passed, ${String(results.numFailedTests + failedSuites)} failed${skipped}\n`);
  }
}
