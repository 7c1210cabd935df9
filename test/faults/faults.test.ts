import { startEmbeddedTarget } from './embedded-target.ts';
import { runFaults } from './run-faults.ts';

// More, and other ones: FAULTS=1000 SEED=7 make faults
const count = Number(process.env['FAULTS'] ?? 60);
const seed = Number(process.env['SEED'] ?? 1);

it(`loses no object and no event over ${count} faults between it and the API server`, async () => {
  const target = await startEmbeddedTarget();
  try {
    const report = await runFaults({ target, count, seed });
    expect(report.violations).toEqual([]);
    expect(report).toMatchObject({ lost: 0, phantom: 0 });
    expect(report.events).toBeGreaterThan(count);
  } finally {
    await target.close();
  }
}, 600_000);
