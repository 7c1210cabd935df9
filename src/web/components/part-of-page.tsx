import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { messageOf } from '../api.ts';
import { partOf, type PartName, type Parts } from '../part.ts';
import { RetryProblem } from './retry-problem.tsx';

interface PartProps<Name extends PartName> {
  readonly name: Name;
  /** Renders the part that has arrived. */
  readonly children: (part: Parts[Name]) => ComponentChildren;
}

/** Content that has a script of its own. Says so while that arrives, and when it does not. */
export function Part<Name extends PartName>({ name, children }: PartProps<Name>) {
  const part = useSignal<Parts[Name] | undefined>(undefined);
  const problem = useSignal<string | undefined>(undefined);
  const load = () => {
    problem.value = undefined;
    partOf(name).then(
      (loaded) => {
        part.value = loaded;
      },
      (error: unknown) => {
        problem.value = messageOf(error);
      },
    );
  };
  useEffect(load, [name]);
  if (part.value !== undefined) return <>{children(part.value)}</>;
  if (problem.value !== undefined) return <RetryProblem text={problem.value} onRetry={load} />;
  return (
    <p class="quiet-text" role="status">
      Loading…
    </p>
  );
}
