import { useComputed, type ReadonlySignal } from '@preact/signals';
import { placeOf } from '../forecast.ts';
import { usePage } from '../page-state.ts';
import type { Row } from '../row.ts';
import { sentenceOf } from '../sentences.ts';

/** The sentence of a conversation, which follows its records and the time. */
export function useSentence(row: Row): ReadonlySignal<string> {
  const page = usePage();
  return useComputed(() =>
    sentenceOf(row.current.value, {
      now: page.now.value,
      resumePauses: page.resumePauses.value,
      titleOf: page.store.titleOf,
      placeOf: (sandboxId) => page.store.quota.value && placeOf(page.store.quota.value, sandboxId),
    }),
  );
}
