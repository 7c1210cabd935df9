import type { Reflector } from '@conversation-operator/kube/reflector';
import type { Metrics } from '../../observability/metrics.ts';
import { sandboxStatuses } from '../../resources/conversation-status.ts';
import { viewOfSandbox, type Sandbox } from '../../resources/sandbox.ts';

/** Keeps the gauge of sandboxes by phase. Returns the function that ends it. */
export function countPhases(
  reflector: Pick<Reflector<Sandbox>, 'addHandler'>,
  { sandboxes }: Pick<Metrics, 'sandboxes'>,
): () => void {
  for (const phase of sandboxStatuses) sandboxes.set({ phase }, 0);
  const move = (old: Sandbox | undefined, current: Sandbox | undefined) => {
    if (old !== undefined) sandboxes.dec({ phase: viewOfSandbox(old).phase });
    if (current !== undefined) sandboxes.inc({ phase: viewOfSandbox(current).phase });
  };
  return reflector.addHandler({
    added: (sandbox) => move(undefined, sandbox),
    updated: (sandbox, old) => move(old, sandbox),
    deleted: (sandbox) => move(sandbox, undefined),
  });
}
