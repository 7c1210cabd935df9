import { useComputed, useSignal } from '@preact/signals';
import { api } from '../api.ts';
import { repositoryOf } from '../../sentences/facts.ts';
import { forecastOf } from '../../sentences/forecast.ts';
import { usePage, type PageState } from '../page-state.ts';
import { Attachments } from './attachments.tsx';
import { SavedList } from './saved-list.tsx';
import { useEffect, useRef } from 'preact/hooks';
import type { SandboxSpecRecord } from '../wire.ts';
import type { DraftField } from '../draft.ts';

/** Delay before a search, so that several typed letters cause one search. */
const delayMs = 200;

interface SuggestedFieldProps {
  readonly name: DraftField;
  readonly label: string;
  readonly placeholder: string;
  /** Returns suggestions for a text. After a rejection, no suggestions are shown. */
  readonly search?: (text: string, signal: AbortSignal) => Promise<readonly string[]>;
}

function SuggestedField({ name, label, placeholder, search }: SuggestedFieldProps) {
  const { draft } = usePage();
  const field = draft.field(name);
  const values = useSignal<readonly string[]>([]);
  const under = useRef<{ timer?: ReturnType<typeof setTimeout>; abort?: AbortController }>({});
  const stop = () => {
    clearTimeout(under.current.timer);
    under.current.abort?.abort();
  };
  useEffect(() => stop, []);
  const suggest = (wait: number) => {
    stop();
    if (search === undefined) return;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      search(field.peek().trim(), abort.signal).then(
        (found) => (values.value = found),
        () => (values.value = []),
      );
    }, wait);
    under.current = { timer, abort };
  };
  const problem = draft.fieldProblems.value[name];
  const [list, error] = [`${name}-values`, `${name}-problem`];
  return (
    <label class="field">
      <span>{label}</span>
      <input
        type="text"
        name={name}
        {...(search === undefined ? {} : { list })}
        placeholder={placeholder}
        autocomplete="off"
        spellcheck={false}
        value={field.value}
        aria-invalid={problem !== undefined}
        {...(problem === undefined ? {} : { 'aria-describedby': error })}
        onFocus={() => suggest(0)}
        onInput={(event) => {
          field.value = event.currentTarget.value;
          suggest(delayMs);
        }}
      />
      {search !== undefined && (
        <datalist id={list}>
          {values.value.map((value) => (
            <option key={value} value={value} />
          ))}
        </datalist>
      )}
      {problem !== undefined && (
        <span id={error} class="problem">
          {problem}
        </span>
      )}
    </label>
  );
}

/** The maximum cost of the conversation; empty: only the budgets of its owner. */
function MaxCostField() {
  const { maxCost, fieldProblems } = usePage().draft;
  const problem = fieldProblems.value['maxCost'];
  return (
    <label class="field">
      <span>Spend at most $</span>
      <input
        type="text"
        inputMode="decimal"
        name="maxCost"
        placeholder="No limit of its own"
        autocomplete="off"
        value={maxCost.value}
        aria-invalid={problem !== undefined}
        {...(problem === undefined ? {} : { 'aria-describedby': 'max-cost-problem' })}
        onInput={(event) => (maxCost.value = event.currentTarget.value)}
      />
      {problem !== undefined && (
        <span id="max-cost-problem" class="problem" role="alert">
          {problem}
        </span>
      )}
    </label>
  );
}

interface SpecPage {
  readonly items: readonly SandboxSpecRecord[];
}

/** A choice of the template. Without a choice, the gateway uses the default template. */
function TemplateField() {
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
        onChange={(event) => (template.value = event.currentTarget.value)}
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

interface NamePage {
  readonly items: readonly { readonly full_name?: string; readonly name?: string }[];
}
const maxSuggestions = 20;
const maxRecent = 5;

/** Repositories whose name contains the text: of recent conversations, then of the git host. */
async function repositories(
  { store }: PageState,
  query: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const recent = new Set<string>();
  const newestFirst = [...store.rows.values()].sort((one, other) =>
    one.sortKey < other.sortKey ? 1 : -1,
  );
  for (const { facts } of newestFirst) {
    const name = repositoryOf(facts);
    if (name?.toLowerCase().includes(query.toLowerCase())) recent.add(name);
    if (recent.size >= maxRecent) break;
  }
  const parameters = { query, limit: maxSuggestions };
  const found = await api
    .get<NamePage>('/api/v1/git/repositories/search', parameters, signal)
    .catch(() => ({ items: [] }));
  return [...new Set([...recent, ...namesIn(found)])];
}

const namesIn = ({ items }: NamePage): readonly string[] =>
  items.flatMap(({ full_name: full, name }) => full ?? name ?? []);

async function branches(
  repository: string,
  query: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  if (repository === '') return [];
  const parameters = { repository, query, limit: maxSuggestions };
  return namesIn(await api.get<NamePage>('/api/v1/git/branches/search', parameters, signal));
}

/** Models that the chosen template names, without patterns. */
function models({ specs, draft }: PageState, query: string): readonly string[] {
  const spec = specs.peek().find(({ id }) => id === draft.template.peek());
  return [spec?.default_model, ...(spec?.allowed_models ?? [])]
    .filter((name) => name !== undefined && name !== null)
    .filter((name) => !name.includes('*') && name.includes(query));
}

function Forecast() {
  const { store, now } = usePage();
  const text = useComputed(() =>
    store.quota.value === undefined ? '' : forecastOf(store.quota.value, store.titleOf, now.value),
  );
  return (
    <p class="forecast" role="status">
      {text}
    </p>
  );
}

/** A note for a start without a model, which does less than a user may expect. */
function ModelNote() {
  const { specs, draft } = usePage();
  const name = draft.template.value === '' ? 'default' : draft.template.value;
  const spec = specs.value.find(({ id }) => id === name);
  if (spec?.agent.kind !== 'openhands' || spec.default_model !== null) return null;
  if (draft.model.value.trim() !== '') return null;
  return (
    <p class="quiet-text">
      The template names no model. Without one, the reference agent runs the shell code blocks of a
      message and nothing else. <a href="/account">Settings</a> has your model.
    </p>
  );
}

/** Only the message is required; every other field has a default. */
export function StartForm() {
  const page = usePage();
  const { draft } = page;
  useEffect(() => {
    const again = new URLSearchParams(location.search).get('again');
    if (again === null) return;
    history.replaceState(null, '', '/');
    page.isFormOpen.value = true;
    void draft.fillFrom(again).then(() => document.getElementById('message')?.focus());
  }, []);
  const lack = page.lackOf('start');
  if (lack !== undefined)
    return (
      <section class="panel" aria-label="Your rights">
        <p class="quiet-text">{lack}</p>
      </section>
    );
  const send = async () => {
    if (page.may('start') && (await draft.send())) page.isFormOpen.value = false;
  };
  return (
    <form
      class={`panel start-form${page.isFormOpen.value ? ' open' : ''}`}
      aria-labelledby="start-title"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <h2 id="start-title">New conversation</h2>
      <textarea
        id="message"
        aria-label="Message"
        placeholder="What should the agent do?"
        rows={4}
        value={draft.message.value}
        onInput={(event) => (draft.message.value = event.currentTarget.value)}
        onPaste={(event) => void draft.images.attach([...(event.clipboardData?.files ?? [])])}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void send();
        }}
      />
      <Attachments images={draft.images} />
      <SavedList
        saved={page.savedMessages}
        noun="message"
        text={draft.message.value.trim()}
        onChoose={(text) => draft.insert(text, page.savedMessages.items.peek() ?? [])}
      />
      <div class="fields">
        <SuggestedField
          name="repository"
          label="Repository"
          placeholder="None"
          search={(text, signal) => repositories(page, text, signal)}
        />
        <SuggestedField
          name="branch"
          label="Branch"
          placeholder="Default branch"
          search={(text, signal) => branches(draft.repository.peek().trim(), text, signal)}
        />
        <TemplateField />
        <SuggestedField
          name="model"
          label="Model"
          placeholder="The template’s"
          search={(text) => Promise.resolve(models(page, text))}
        />
      </div>
      <MaxCostField />
      <ModelNote />
      {draft.problem.value !== undefined && (
        <p class="problem" role="alert">
          {draft.problem.value}
        </p>
      )}
      <div class="submit">
        <button
          type="submit"
          class="primary"
          disabled={draft.isSending.value || !page.may('start')}
        >
          {draft.isSending.value ? 'Starting…' : 'Start'}
        </button>
        <Forecast />
      </div>
    </form>
  );
}
