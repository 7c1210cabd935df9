import { kubectl, stateFolder } from './cluster.ts';
import { readFacts, readFigures } from './installation.ts';

/** Prints what was measured, and leaves a cluster that is not ours as it was. */
export default async function teardown(): Promise<void> {
  const seconds = Math.round(Date.now() / 1000 - Number(process.env['E2E_STARTED']));
  const figures = { ...readFigures(), 'from nothing to here': `${seconds} s` };
  process.stdout.write(
    `\nMeasured:\n${Object.entries(figures)
      .map(([name, value]) => `  ${name.padEnd(32)} ${value}\n`)
      .join('')}`,
  );
  globalThis.e2ePortForward?.close();
  if (stateFolder !== undefined || process.env['KEEP'] !== undefined) return;
  const { namespace, sandboxes, tools } = readFacts();
  await kubectl(`delete namespace ${namespace} ${sandboxes} ${tools} --ignore-not-found --timeout=180s`);
  await kubectl('delete crd -l app.kubernetes.io/name=conversation-operator --ignore-not-found');
}
