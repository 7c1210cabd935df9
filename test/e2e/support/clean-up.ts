import { kubectl, stateFolder } from './cluster.ts';
import { readFacts } from './installation.ts';

/** Leaves a cluster that is not ours as it was; an own one is removed as a whole. */
export async function cleanUp(): Promise<void> {
  globalThis.e2ePortForward?.close();
  if (stateFolder !== undefined || process.env['KEEP'] !== undefined) return;
  const { namespace, sandboxes, tools } = readFacts();
  await kubectl(`delete namespace ${namespace} ${sandboxes} ${tools} --ignore-not-found --timeout=180s`);
  await kubectl('delete crd -l app.kubernetes.io/name=conversation-operator --ignore-not-found');
}
