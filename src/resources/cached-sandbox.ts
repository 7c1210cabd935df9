import { cachedObject } from './cached-object.ts';
import type { Interner } from './interner.ts';
import type { Sandbox } from './sandbox.ts';

/** The transform of every cache of sandboxes. Texts that many of them have share one place. */
export function cachedSandbox(sandbox: Sandbox, interner: Interner): Sandbox {
  const { spec, status } = sandbox;
  interner.share(spec, 'owner', 'templateName');
  if (status !== undefined)
    interner.share(
      status,
      'message',
      'reason',
      'masterKeyId',
      'agentName',
      'agentTitle',
      'pauseTime',
    );
  // One reconcile writes its time into several fields.
  for (const condition of status?.conditions ?? [])
    interner.share(condition, 'type', 'reason', 'message', 'lastTransitionTime');
  return cachedObject(sandbox, interner);
}
