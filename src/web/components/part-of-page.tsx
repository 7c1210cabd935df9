import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useErrorBoundary } from 'preact/hooks';
import { messageOf } from '../api.ts';
import { loadedPart, partOf } from '../part.ts';
import type * as account from '../parts/account.tsx';
import type * as changes from '../parts/changes.tsx';
import type * as files from '../parts/files.tsx';
import type * as find from '../parts/find.tsx';
import type * as handover from '../parts/handover.tsx';
import type * as timeline from '../parts/timeline.tsx';
import type * as operate from '../parts/operate.tsx';
import type * as sandboxes from '../parts/sandboxes.tsx';
import type * as share from '../parts/share.tsx';
import type * as search from '../parts/search.tsx';
import type * as selection from '../parts/selection.tsx';
import type * as usage from '../parts/usage.tsx';
import { RetryProblem, Skeleton } from './loading.tsx';

interface Parts {
  readonly account: typeof account;
  readonly changes: typeof changes;
  readonly files: typeof files;
  readonly find: typeof find;
  readonly handover: typeof handover;
  readonly timeline: typeof timeline;
  readonly operate: typeof operate;
  readonly sandboxes: typeof sandboxes;
  readonly search: typeof search;
  readonly share: typeof share;
  readonly selection: typeof selection;
  readonly usage: typeof usage;
}

interface PartProps<Name extends keyof Parts> {
  readonly name: Name;
  readonly children: (part: Parts[Name]) => ComponentChildren;
}

/** Content with its own script, and a message while the script loads or after a failure. */
export function Part<Name extends keyof Parts>({ name, children }: PartProps<Name>) {
  const part = useSignal(loadedPart(name) as Parts[Name] | undefined);
  const problem = useSignal<string | undefined>(undefined);
  const load = () => {
    problem.value = undefined;
    partOf(name).then(
      (loaded) => (part.value = loaded as Parts[Name]),
      (error: unknown) => (problem.value = messageOf(error)),
    );
  };
  useEffect(() => {
    if (part.peek() === undefined) load();
  }, [name]);
  const [failure, again] = useErrorBoundary() as readonly [unknown, () => void];
  if (failure !== undefined)
    return <RetryProblem text="This part of the page has failed." onRetry={again} />;
  if (part.value !== undefined) return <>{children(part.value)}</>;
  if (problem.value !== undefined) return <RetryProblem text={problem.value} onRetry={load} />;
  return <Skeleton lines={4}>Loading…</Skeleton>;
}
