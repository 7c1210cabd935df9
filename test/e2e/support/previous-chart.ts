import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { chartFolder } from '../../../helm/tools/render.ts';
import { helm } from './installation.ts';

export const previousVersion = '0.0.9';

/** Packages this chart as an older version, so that the labels alone differ in an upgrade. */
export async function packagePreviousChart(work: string): Promise<string> {
  const folder = join(work, 'conversation-operator');
  cpSync(chartFolder, folder, { recursive: true });
  const file = join(folder, 'Chart.yaml');
  writeFileSync(
    file,
    readFileSync(file, 'utf8').replace(/^version: .*$/m, `version: ${previousVersion}`),
  );
  await helm(['package', folder, '--destination', work]);
  return join(work, `conversation-operator-${previousVersion}.tgz`);
}
