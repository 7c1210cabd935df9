import { ConversationPage, Missing } from './conversation-page.tsx';
import { BudgetBanner } from './budget-banner.tsx';
import { ConversationList } from './conversation-list.tsx';
import { Filters } from './filters.tsx';
import { Part } from './part-of-page.tsx';
import { QuotaPanel } from './quota-panel.tsx';
import { StartForm } from './start-form.tsx';
import { useEffect, useRef } from 'preact/hooks';
import { shortcutsOn } from '../keyboard.ts';
import { minSought, usePage } from '../page-state.ts';
import { beginSignOut } from '../api.ts';
import { Icon } from './icon.tsx';
import { clockTime } from '../times.ts';

/** Shows one line while the event stream is disconnected. */
function ConnectionLine() {
  const { stream } = usePage();
  const { isOpen, attempts } = stream.state.value;
  const news = stream.lastNews === undefined ? '' : ` Last news ${clockTime(stream.lastNews)}.`;
  return (
    <div class="connection" role="status">
      {isOpen || attempts === 0 ? '' : `No connection.${news} Attempt ${attempts}…`}
    </div>
  );
}

interface PageLinkProps {
  readonly href: string;
  readonly path: string;
  readonly children: string;
}

const PageLink = ({ href, path, children }: PageLinkProps) => (
  <a class="button small quiet" href={href} {...(path === href ? { 'aria-current': 'page' } : {})}>
    {children}
  </a>
);

function Header({ path }: { readonly path: string }) {
  const page = usePage();
  return (
    <header>
      <div class="bar-content">
        <a class="home" href="/">
          <span class="home-long">Conversations</span>
          <span class="home-short">Home</span>
        </a>
        <ConnectionLine />
        <PageLink href="/usage" path={path}>
          Usage
        </PageLink>
        <PageLink href="/account" path={path}>
          Settings
        </PageLink>
        <PageLink href="/docs" path={path}>
          API
        </PageLink>
        {page.account.value?.role === 'admin' && (
          <PageLink href="/operate" path={path}>
            Operate
          </PageLink>
        )}
        {page.may('start') && (
          <button
            type="button"
            class="small new"
            aria-expanded={page.isFormOpen.value}
            onClick={() => (page.isFormOpen.value = !page.isFormOpen.value)}
          >
            <Icon name="plus" />
            <span class="new-label">New</span>
          </button>
        )}
        <button
          type="button"
          class="small quiet keys-button"
          aria-label="Keys"
          onClick={() => (page.isHelpOpen.value = true)}
        >
          ?
        </button>
        <form
          method="post"
          action="/logout"
          onSubmit={() => {
            beginSignOut();
            page.stream.beginSignOut();
          }}
        >
          <button class="small quiet">Sign out</button>
        </form>
      </div>
    </header>
  );
}

function KeyHelp({ path }: { readonly path: string }) {
  const page = usePage();
  const { isHelpOpen } = page;
  const dialog = useRef<HTMLDialogElement>(null);
  const isOpen = isHelpOpen.value;
  useEffect(() => {
    if (isOpen) dialog.current?.showModal();
  }, [isOpen]);
  return (
    <dialog ref={dialog} aria-labelledby="help-title" onClose={() => (isHelpOpen.value = false)}>
      <h2 id="help-title">Keys</h2>
      <dl class="keys">
        {shortcutsOn(path, page).map(({ keys, text }) => (
          <div key={text}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog">
        <button>Close</button>
      </form>
    </dialog>
  );
}

/** The selection bar, and the outcome of the last action, which remains for screen readers. */
function Selected() {
  const { selection, selected } = usePage();
  return (
    <>
      <p class="unseen" role="status">
        {selection.outcome}
      </p>
      {selected.value.length > 0 && (
        <section class="selection-bar" aria-label="Selected conversations">
          <Part name="selection">{({ SelectionBar }) => <SelectionBar />}</Part>
        </section>
      )}
    </>
  );
}

const Bare = () =>
  usePage().store.bareSandboxes.value.length === 0 ? null : (
    <Part name="sandboxes">{({ BareSandboxes }) => <BareSandboxes />}</Part>
  );

/** A button that searches the events of conversations for the filter's text, and the results. */
function TextSearch() {
  const page = usePage();
  const { filter, sought } = page;
  const text = filter.value.text.trim();
  const shown = sought.value;
  return (
    <>
      {text.length >= minSought && text !== shown && (
        <button type="button" class="link seek" onClick={() => page.seek()}>
          Search for “{text}” in what was said and done
        </button>
      )}
      {shown !== undefined && (
        <Part name="search">
          {({ SearchResults }) => (
            <SearchResults key={shown} text={shown} onClose={() => (sought.value = undefined)} />
          )}
        </Part>
      )}
    </>
  );
}

/** Conversations that others have offered, and those whose offer was accepted in this tab. */
function Offered() {
  const { handovers, account } = usePage();
  const accepted = useRef(new Set<string>());
  const records = handovers.list.value.filter(({ id, to, status }) => {
    if (to !== account.value?.id) return false;
    if (status === 'moving') accepted.current.add(id);
    return status === 'offered' || accepted.current.has(id);
  });
  if (records.length === 0) return null;
  return <Part name="handover">{({ Offers }) => <Offers records={records} />}</Part>;
}

const Home = () => (
  <main class="home-page">
    <h1 class="unseen">Conversations</h1>
    <aside>
      <StartForm />
      <QuotaPanel />
    </aside>
    <div class="home-list">
      <BudgetBanner />
      <Filters />
      <TextSearch />
      <Selected />
      <Offered />
      <ConversationList />
      <Bare />
    </div>
  </main>
);

/** Shown instead of all pages, which read before they do anything else. */
const NoReading = () => (
  <main class="missing">
    <h1>Your key opens nothing to read.</h1>
    <p>These pages need the scope read. Sign out, and sign in with another key.</p>
  </main>
);

function Content({ path }: { readonly path: string }) {
  const page = usePage();
  if (page.account.value !== undefined && !page.may('read')) return <NoReading />;
  if (path === '/') return <Home />;
  if (path === '/operate')
    return <Part name="operate">{({ OperatePage }) => <OperatePage />}</Part>;
  if (path === '/usage') return <Part name="usage">{({ UsagePage }) => <UsagePage />}</Part>;
  if (path === '/account')
    return <Part name="account">{({ SettingsPage }) => <SettingsPage />}</Part>;
  const [, id] = /^\/c\/([^/]+)$/.exec(path) ?? [];
  return id === undefined ? <Missing /> : <ConversationPage id={id.replaceAll('-', '')} />;
}

export const App = ({ path }: { readonly path: string }) => (
  <>
    <Header path={path} />
    <Content path={path} />
    <KeyHelp path={path} />
  </>
);
