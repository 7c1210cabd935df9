import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { api, messageOf } from '../api.ts';

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
  const load = async (signal?: AbortSignal) => {
    try {
      data.value = await api.get<T>(path, {}, signal);
      problem.value = undefined;
    } catch (error) {
      if (signal?.aborted !== true) problem.value = messageOf(error);
    }
  };
  useEffect(() => {
    if (!isOpen.value) return undefined;
    const abort = new AbortController();
    void load(abort.signal);
    return () => abort.abort();
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
          <button type="button" class="link" onClick={() => void load()}>
            Try again
          </button>
        </p>
      )}
    </details>
  );
}
