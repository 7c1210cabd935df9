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

export function Header({ path }: { readonly path: string }) {
  const page = usePage();
  return (
    <header>
      <div class="bar-content">
        <a class="home" href="/">
          Conversations
        </a>
        <ConnectionLine />
        {page.role.value === 'admin' && (
          <a
            class="button small quiet"
            href="/operate"
            {...(path === '/operate' ? { 'aria-current': 'page' } : {})}
          >
            Operate
          </a>
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
          New
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
        <form method="post" action="/logout" onSubmit={beginSignOut}>
          <button class="small quiet">Sign out</button>
        </form>
      </div>
    </header>
  );
}
