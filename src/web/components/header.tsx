import { beginSignOut } from '../api.ts';
import { usePage } from '../page-state.ts';
import { ConnectionLine } from './connection-line.tsx';
import { Icon } from './icon.tsx';

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
