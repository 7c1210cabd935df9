import { useEffect } from 'preact/hooks';
import { api } from '../api.ts';
import { usePage } from '../page-state.ts';
import type { SandboxSpecRecord } from '../wire.ts';

interface SpecPage {
  readonly items: readonly SandboxSpecRecord[];
}

/** The templates by name; without a choice, the service takes its default one. */
export function TemplateField() {
  const { specs, draft } = usePage();
  const { template } = draft;
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
        {specs.value.map(({ id, display_name: name, invalid_reason: invalid }) => (
          <option key={id} value={id} disabled={invalid !== null}>
            {name ?? id}
            {invalid === null ? '' : ' (invalid)'}
          </option>
        ))}
      </select>
      {chosen !== undefined && chosen.invalid_reason !== null && (
        <span class="problem">{chosen.invalid_reason}</span>
      )}
    </label>
  );
}
