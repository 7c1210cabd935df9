import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo } from 'preact/hooks';
import { api, messageOf } from '../api.ts';
import { Refresher } from '../refresher.ts';

interface LoadedDetailsProps<T> {
  readonly class: string;
  readonly summary: string;
  readonly path: string;
  /** Another value makes an open one load again. */
  readonly version: unknown;
  readonly isOpenAtFirst?: boolean;
  readonly show: (data: T) => ComponentChildren;
}

/** Details that the service is asked for while they are open. */
export function LoadedDetails<T>(props: LoadedDetailsProps<T>) {
  const { summary, path, version, isOpenAtFirst = false, show } = props;
  const isOpen = useSignal(isOpenAtFirst);
  const data = useSignal<T | undefined>(undefined);
  const problem = useSignal<string | undefined>(undefined);
  const loading = useMemo(
    () =>
      new Refresher(async () => {
        try {
          data.value = await api.get<T>(path, {});
          problem.value = undefined;
        } catch (error) {
          problem.value = messageOf(error);
        }
      }),
    [path],
  );
  useEffect(() => {
    if (isOpen.value) void loading.run();
  }, [isOpen.value, version]);
  return (
    <details
      class={props.class}
      open={isOpen.value}
      onToggle={(event) => {
        isOpen.value = event.currentTarget.open;
      }}
    >
      <summary>{summary}</summary>
      {data.value !== undefined && show(data.value)}
      {data.value === undefined && problem.value === undefined && isOpen.value && (
        <p class="quiet-text">Loading…</p>
      )}
      {problem.value !== undefined && (
        <p class="problem" role="alert">
          {problem.value}{' '}
          <button type="button" class="link" onClick={() => void loading.run()}>
            Try again
          </button>
        </p>
      )}
    </details>
  );
}
