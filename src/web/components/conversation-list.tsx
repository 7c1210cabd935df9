import { useComputed, useSignal, useSignalEffect, type ReadonlySignal } from '@preact/signals';
import { useRef, useEffect } from 'preact/hooks';
import { groupNames, type Group } from '../../sentences/groups.ts';
import { usePage, type GroupRows } from '../page-state.ts';
import { rowWindows, type RowWindow } from '../row-window.ts';
import { Skeleton } from './loading.tsx';
import { ConversationRow } from './conversation-row.tsx';
import { noFilter } from '../filter.ts';
import type { RefObject } from 'preact';

interface Task {
  readonly name: string;
  readonly text: string;
  readonly commands: string;
}

/** Example tasks. The reference agent runs their commands without a model. */
const tasks: readonly Task[] = [
  {
    name: 'Write two files',
    text: 'The tab Changes shows them.',
    commands: [
      'git init -q 2>/dev/null',
      "printf '# Notes\\n\\nWritten by an agent.\\n' > NOTES.md",
      'printf \'print("hello")\\n\' > hello.py',
      'ls -l',
    ].join('\n'),
  },
  {
    name: 'Count for a minute',
    text: 'Its output shows while it runs. “Stop” ends it.',
    commands: 'for i in $(seq 1 60); do echo "$i of 60"; sleep 1; done',
  },
  {
    name: 'Fail',
    text: 'A command that fails brings the conversation to the top of this list.',
    commands: 'echo "this fails" >&2\nexit 3',
  },
];

function FirstTasks() {
  const page = usePage();
  if (!page.may('start')) return <p class="empty">There are no conversations yet.</p>;
  return (
    <div class="first-tasks">
      <p class="empty">
        There are no conversations yet. Write a message to start one, or try a task that needs no
        model:
      </p>
      <ul role="list">
        {tasks.map((task) => (
          <li key={task.name}>
            <button
              type="button"
              onClick={() => {
                page.draft.message.value = `${task.name}:\n\n\`\`\`sh\n${task.commands}\n\`\`\`\n`;
                page.openForm();
              }}
            >
              {task.name}
            </button>{' '}
            <span class="quiet-text">{task.text}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

interface Viewport {
  /** Distance from the top of the list to the top of the window, rounded down to `stepPx`. */
  readonly top: number;
  readonly height: number;
  readonly isNarrow: boolean;
}

/** Scroll distance in pixels after which the list is rendered again. */
const stepPx = 240;
/** This width must be the same as in styles.css. */
const narrow = '(max-width: 640px)';

function useViewport(element: RefObject<HTMLElement | null>): ReadonlySignal<Viewport> {
  const viewport = useSignal<Viewport>({
    top: 0,
    height: innerHeight,
    isNarrow: matchMedia(narrow).matches,
  });
  useEffect(() => {
    const measure = () => {
      const distance = -(element.current?.getBoundingClientRect().top ?? 0);
      const next = {
        top: Math.floor(distance / stepPx) * stepPx,
        height: innerHeight,
        isNarrow: matchMedia(narrow).matches,
      };
      const { top, height, isNarrow } = viewport.peek();
      if (next.top !== top || next.height !== height || next.isNarrow !== isNarrow)
        viewport.value = next;
    };
    measure();
    addEventListener('scroll', measure, { passive: true });
    addEventListener('resize', measure, { passive: true });
    return () => {
      removeEventListener('scroll', measure);
      removeEventListener('resize', measure);
    };
  }, [element, viewport]);
  return viewport;
}

function EmptyList() {
  const page = usePage();
  if (page.store.rows.size > 0 && page.filter.value !== noFilter)
    return (
      <p class="empty">
        No conversation matches.{' '}
        <button type="button" class="link" onClick={() => (page.filter.value = noFilter)}>
          Show all
        </button>
      </p>
    );
  return page.store.isFilled.value ? (
    <FirstTasks />
  ) : (
    <Skeleton lines={6}>Reading your conversations…</Skeleton>
  );
}

/** Heights in pixels, which must be the same as in styles.css. */
const headingHeight = 40;
const overscan = 600;
/** Groups whose rows have a second line, for long sentences with a cause and its fix. */
const hasLongSentences: ReadonlySet<Group> = new Set(['needs-you', 'waiting', 'paused', 'failed']);

const rowHeightOf = (group: Group, isNarrow: boolean): number => {
  if (isNarrow) return 128;
  return hasLongSentences.has(group) ? 94 : 74;
};

interface GroupSectionProps extends GroupRows {
  readonly rowHeight: number;
  readonly window: RowWindow;
}

function GroupSection({ group, rows, rowHeight, window }: GroupSectionProps) {
  const page = usePage();
  const { value: activeId } = page.active;
  const active = activeId === undefined ? -1 : rows.findIndex(({ id }) => id === activeId);
  const indexes = Array.from({ length: window.last - window.first }, (_, i) => window.first + i);
  // The focused row stays in the document, wherever the list is scrolled.
  if (active >= 0 && !indexes.includes(active)) indexes.push(active);
  return (
    <section class={`group group-${group}`} aria-labelledby={`group-${group}`}>
      <h2 id={`group-${group}`}>
        {groupNames[group]} <span class="count">{rows.length}</span>
      </h2>
      <ul role="list" style={{ height: `${rows.length * rowHeight}px` }}>
        {indexes.flatMap((index) => {
          const row = rows[index];
          if (row === undefined) return [];
          const place = { position: index + 1, total: rows.length, top: index * rowHeight };
          return [<ConversationRow key={row.id} row={row} height={rowHeight} {...place} />];
        })}
      </ul>
    </section>
  );
}

/** A button that shows the new order. While the list has the focus, its rows stay in place. */
function WaitingRows({ isFocused }: { readonly isFocused: ReadonlySignal<boolean> }) {
  const { index } = usePage().store;
  const count = index.waiting.value;
  if (count === 0 || !isFocused.value) return null;
  return (
    <button type="button" class="waiting-rows" onClick={() => index.flush()}>
      {count === 1 ? '1 conversation has' : `${count} conversations have`} moved. Show the new order
    </button>
  );
}

/** The groups with their rows. The document contains only the rows near the visible part. */
export function ConversationList() {
  const page = usePage();
  const { index } = page.store;
  const element = useRef<HTMLDivElement>(null);
  const viewport = useViewport(element);
  const lists = page.lists.value;
  const { top, height, isNarrow } = viewport.value;
  const blocks = lists.map(({ group, rows }) => ({
    count: rows.length,
    rowHeight: rowHeightOf(group, isNarrow),
  }));
  const windows = rowWindows(blocks, { top, height, headingHeight, overscan });
  const isHovered = useSignal(false);
  const isFocused = useSignal(false);
  useSignalEffect(() => {
    if (isHovered.value || isFocused.value) index.hold();
    else index.release();
  });
  const needing = useComputed(() => {
    const count = index.rowsOf('needs-you').length;
    if (count === 0) return '';
    return count === 1 ? '1 conversation needs you.' : `${count} conversations need you.`;
  });
  return (
    <div
      ref={element}
      class="list"
      onPointerEnter={() => (isHovered.value = true)}
      onPointerLeave={() => {
        isHovered.value = false;
        // Browsers send no focusout event when the focused element is removed.
        isFocused.value = element.current?.contains(document.activeElement) === true;
      }}
      onFocusIn={() => (isFocused.value = true)}
      onFocusOut={(event) => {
        const next = event.relatedTarget;
        isFocused.value = next instanceof Node && event.currentTarget.contains(next);
      }}
    >
      <p class="unseen" role="status">
        {needing}
      </p>
      <WaitingRows isFocused={isFocused} />
      {lists.length === 0 && <EmptyList />}
      {lists.map(({ group, rows }, position) => (
        <GroupSection
          key={group}
          group={group}
          rows={rows}
          rowHeight={blocks[position]?.rowHeight ?? 0}
          window={windows[position] ?? { first: 0, last: 0 }}
        />
      ))}
    </div>
  );
}
