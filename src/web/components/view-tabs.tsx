import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

const views = [
  { view: 'events', label: 'Events' },
  { view: 'changes', label: 'Changes' },
  { view: 'files', label: 'Files' },
  { view: 'life', label: 'Life' },
] as const;
export type View = (typeof views)[number]['view'];

/** The view in the URL, so that a link can open it and a sign-in returns to it. */
function viewOfAddress(): View {
  const named = new URLSearchParams(location.search).get('view');
  return views.find(({ view }) => view === named)?.view ?? 'events';
}

export function useView(): readonly [view: View, show: (view: View) => void] {
  const view = useSignal(viewOfAddress());
  useEffect(() => {
    const follow = () => (view.value = viewOfAddress());
    addEventListener('popstate', follow);
    return () => removeEventListener('popstate', follow);
  }, []);
  const show = (next: View) => {
    const address = new URL(location.href);
    if (next === 'events') address.searchParams.delete('view');
    else address.searchParams.set('view', next);
    if (next !== 'files') address.searchParams.delete('path');
    history.replaceState(history.state, '', address);
    view.value = next;
  };
  return [view.value, show];
}

const panelIdOf = (view: View): string => `view-${view}`;
const tabIdOf = (view: View): string => `tab-${view}`;

interface ViewTabsProps {
  readonly view: View;
  readonly onShow: (view: View) => void;
}

/** Tabs of a conversation. Arrow keys, Home and End choose a tab; all tabs are one Tab stop. */
export function ViewTabs({ view: shown, onShow }: ViewTabsProps) {
  const list = useRef<HTMLDivElement>(null);
  const choose = (index: number) => {
    const next = views[(index + views.length) % views.length];
    if (next === undefined) return;
    onShow(next.view);
    list.current?.querySelector<HTMLElement>(`#${tabIdOf(next.view)}`)?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const present = views.findIndex(({ view }) => view === shown);
    const indexes: Readonly<Record<string, number>> = {
      ArrowLeft: present - 1,
      ArrowRight: present + 1,
      Home: 0,
      End: views.length - 1,
    };
    const index = indexes[event.key];
    if (index === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    choose(index);
  };
  return (
    <div
      ref={list}
      class="view-tabs"
      role="tablist"
      aria-label="Views of the conversation"
      onKeyDown={onKeyDown}
    >
      {views.map(({ view, label }, index) => (
        <button
          key={view}
          type="button"
          role="tab"
          id={tabIdOf(view)}
          aria-selected={view === shown}
          aria-controls={panelIdOf(view)}
          tabIndex={view === shown ? 0 : -1}
          onClick={() => choose(index)}
        >
          {label}
        </button>
      ))}
    </div>
  );
}

interface ViewPanelProps {
  readonly view: View;
  readonly shown: View;
  readonly children: ComponentChildren;
}

/** The content of a tab. A hidden tab has none, because its question would count as read. */
export const ViewPanel = ({ view, shown, children }: ViewPanelProps) => (
  <div
    class="view"
    role="tabpanel"
    id={panelIdOf(view)}
    aria-labelledby={tabIdOf(view)}
    hidden={view !== shown}
  >
    {view === shown && children}
  </div>
);
