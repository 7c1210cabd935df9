import { useSignal, useSignalEffect } from '@preact/signals';
import { repositoryOf, templateOf, type Facts } from '../../sentences/facts.ts';
import { filterOf, searchOf, type Filter } from '../filter.ts';
import { groupNames, groups } from '../../sentences/groups.ts';
import { usePage } from '../page-state.ts';
import { Icon } from './icon.tsx';
import { SavedList } from './saved-list.tsx';

interface ChoiceProps {
  readonly name: 'template' | 'repository';
  readonly all: string;
  readonly valueOf: (facts: Facts) => string | undefined;
}

/** A filter by one property. Collects the possible values when it gets the focus. */
function Choice({ name, all, valueOf }: ChoiceProps) {
  const { store, filter } = usePage();
  const values = useSignal<readonly string[]>([]);
  const collect = () => {
    const found = [...store.rows.values()].flatMap(({ facts }) => valueOf(facts) ?? []);
    values.value = [...new Set(found)].sort();
  };
  const chosen = filter.value[name];
  const options = chosen === '' || values.value.includes(chosen) ? values.value : [chosen];
  return (
    <select
      aria-label={`Filter by ${name}`}
      value={chosen}
      onFocus={collect}
      onPointerDown={collect}
      onChange={(event) => {
        filter.value = { ...filter.value, [name]: event.currentTarget.value };
      }}
    >
      <option value="">{all}</option>
      {options.map((value) => (
        <option key={value} value={value}>
          {value}
        </option>
      ))}
    </select>
  );
}

/** Delay before a changed filter is put into the URL: browsers limit the rate of URL changes. */
const addressDelayMs = 300;

/** Search and filters of the list. The URL contains them, so that it can be shared. */
export function Filters() {
  const page = usePage();
  const { filter, savedFilters } = page;
  useSignalEffect(() => {
    const address = `/${searchOf(filter.value)}`;
    const timer = setTimeout(
      () => history.replaceState(history.state, '', address),
      addressDelayMs,
    );
    return () => clearTimeout(timer);
  });
  const set = (change: Partial<Filter>) => {
    filter.value = { ...filter.value, ...change };
  };
  return (
    <search>
      <div class="filters">
        <span class="search-field">
          <Icon name="search" />
          <input
            id="search"
            type="search"
            aria-label="Search conversations"
            placeholder="Search  /"
            value={filter.value.text}
            onInput={(event) => set({ text: event.currentTarget.value })}
            onKeyDown={({ key }) => {
              if (key === 'Enter') page.seek();
            }}
          />
        </span>
        <select
          aria-label="Filter by group"
          value={filter.value.group}
          onChange={(event) => {
            const { value } = event.currentTarget;
            set({ group: groups.find((group) => group === value) ?? '' });
          }}
        >
          <option value="">All groups</option>
          {groups.map((group) => (
            <option key={group} value={group}>
              {groupNames[group]}
            </option>
          ))}
        </select>
        <Choice name="repository" all="All repositories" valueOf={repositoryOf} />
        <Choice name="template" all="All templates" valueOf={templateOf} />
      </div>
      <SavedList
        saved={savedFilters}
        noun="filter"
        text={searchOf(filter.value)}
        onChoose={(search) => (filter.value = filterOf(search))}
      />
    </search>
  );
}
