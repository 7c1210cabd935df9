import { kubectl } from './cluster.ts';
import { helm, readFacts, release } from './installation.ts';

/** Restores a cluster that stays; one that was started for the run is removed as a whole. */
export async function cleanUp(): Promise<void> {
  globalThis.e2ePortForward?.close();
  if (process.env['E2E_OWNS_CLUSTER'] !== undefined || process.env['KEEP'] !== undefined) return;
  const { namespace, sandboxes, tools } = readFacts();
  try {
    // The release has objects of the cluster too, which a namespace does not take with it.
    await helm([
      'uninstall',
      release,
      '--namespace',
      namespace,
      '--ignore-not-found',
      '--wait',
      '--timeout',
      '120s',
    ]);
  } finally {
    await kubectl(
      `delete namespace ${namespace} ${sandboxes} ${tools} --ignore-not-found --timeout=180s`,
    );
    await kubectl('delete crd -l app.kubernetes.io/name=conversation-operator --ignore-not-found');
  }
}
