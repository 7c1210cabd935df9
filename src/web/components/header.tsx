import { beginSignOut } from '../api.ts';
import { usePage } from '../page-state.ts';
import { Icon } from './icon.tsx';
import { clockTime } from '../times.ts';

/** One line while the stream is down. The page stays usable for reading. */
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
  /** The path of the present page. */
  readonly path: string;
  readonly children: string;
}

const PageLink = ({ href, path, children }: PageLinkProps) => (
  <a class="button small quiet" href={href} {...(path === href ? { 'aria-current': 'page' } : {})}>
    {children}
  </a>
);

export function Header({ path }: { readonly path: string }) {
  const page = usePage();
  return (
    <header>
      <div class="bar-content">
        <a class="home" href="/">
          Conversations
        </a>
        <ConnectionLine />
        <PageLink href="/account" path={path}>
          Settings
        </PageLink>
        <PageLink href="/docs" path={path}>
          API
        </PageLink>
        {page.role.value === 'admin' && (
          <PageLink href="/operate" path={path}>
            Operate
          </PageLink>
        )}
        <button
          type="button"
          class="small new"
          aria-expanded={page.isFormOpen.value}
          onClick={() => {
            page.isFormOpen.value = !page.isFormOpen.value;
          }}
        >
          <Icon name="plus" />
          <span class="new-label">New</span>
        </button>
        <button
          type="button"
          class="small quiet keys-button"
          aria-label="Keys"
          onClick={() => {
            page.isHelpOpen.value = true;
          }}
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
