import type { AggregatedResult, Reporter } from '@jest/reporters';

/** Ends a run with one plain line, so that a script can read the outcome without knowing jest. */
export default class SummaryReporter implements Pick<Reporter, 'onRunComplete'> {
  onRunComplete(_contexts: unknown, results: AggregatedResult): void {
    const failedSuites = results.numRuntimeErrorTestSuites;
    const skipped =
      results.numPendingTests > 0 ? `, ${String(results.numPendingTests)} skipped` : '';
    const line = `${String(results.numPassedTests)} passed, ${String(results.numFailedTests + failedSuites)} failed${skipped}\n`;
    // After the summary that jest prints itself.
    process.once('exit', () => process.stdout.write(line));
  }
}
