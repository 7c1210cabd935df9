import { faults, faultsFor, type FaultName } from './faults.ts';
import { startEmbeddedTarget } from './embedded-target.ts';
import { startRealTarget } from './real-target.ts';
import { runFaults } from './run-faults.ts';

/**
 * FAULTS seeded faults (SEED), or only the one named by FAULT, against the API server of
 * KUBECONFIG, or the embedded one without. Exits with 1 when anything was wrong.
 */
const count = Number(process.env['FAULTS'] ?? 1000);
const seed = Number(process.env['SEED'] ?? 1);
const named = process.env['FAULT'] ?? '';
const isFault = (name: string): name is FaultName => Object.hasOwn(faults, name);
if (named !== '' && !isFault(named))
  throw new Error(`FAULT is none of: ${Object.keys(faults).join(', ')}`);
const only = isFault(named) ? { only: named } : {};
const kubeconfig = process.env['KUBECONFIG'] ?? '';
const began = performance.now();
const target = kubeconfig === '' ? await startEmbeddedTarget() : await startRealTarget(kubeconfig);
process.stdout.write(
  `${count} faults, seed ${seed}, ${new Set(faultsFor(target)).size} kinds, against ${target.name}\n`,
);
try {
  const report = await runFaults({
    target,
    count,
    seed,
    ...only,
    onFault: (done, name, healedMs) => {
      if (done % 100 === 0 || healedMs > 10_000)
        process.stdout.write(`  ${done}: ${name}, healed within ${Math.round(healedMs)} ms\n`);
    },
  });
  const rows = [...report.byFault].sort(([, one], [, other]) => other.count - one.count);
  for (const [name, { count: times, slowestMs }] of rows) {
    process.stdout.write(
      `  ${name.padEnd(30)} ${String(times).padStart(4)}   slowest ${(slowestMs / 1000).toFixed(2)} s\n`,
    );
  }
  for (const violation of report.violations) process.stdout.write(`WRONG: ${violation}\n`);
  const seconds = Math.round((performance.now() - began) / 1000);
  process.stdout.write(
    `${report.faults} faults in ${seconds} s: ${report.lost} lost, ${report.phantom} phantom, ${report.violations.length} violations; ` +
      `${report.writes} writes, ${report.events} events, ${report.reconciles} reconciles; ` +
      `at most ${report.peakSockets} of ${report.maxSockets} connections; silence noticed within ${(report.longestSilenceMs / 1000).toFixed(2)} s\n`,
  );
  if (report.violations.length > 0) {
    process.stdout.write(`again: FAULTS=${count} SEED=${seed} make faults\n`);
    process.exitCode = 1;
  }
} finally {
  await target.close();
}
