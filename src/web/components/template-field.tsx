import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { api } from '../api.ts';
import { usePage } from '../page-state.ts';
import type { SandboxSpecRecord } from '../wire.ts';

interface SpecPage {
  readonly items: readonly SandboxSpecRecord[];
}

/** The templates by name; without a choice, the service takes its default one. */
export function TemplateField() {
  const { template } = usePage().draft;
  const specs = useSignal<readonly SandboxSpecRecord[]>([]);
  useEffect(() => {
    api.get<SpecPage>('/api/v1/sandbox-specs/search', { limit: 100 }).then(
      ({ items }) => (specs.value = items),
      () => undefined,
    );
  }, [specs]);
  const chosen = specs.value.find(({ id }) => id === template.value);
  return (
    <label class="field">
      <span>Template</span>
      <select
        name="template"
        value={template.value}
        title={chosen?.description ?? undefined}
        onChange={(event) => {
          template.value = event.currentTarget.value;
        }}
      >
        <option value="">Default</option>
        {specs.value.map(({ id, display_name: name }) => (
          <option key={id} value={id}>
            {name ?? id}
          </option>
        ))}
      </select>
    </label>
  );
}
