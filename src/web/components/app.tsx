import { ConversationPage, Missing } from './conversation-page.tsx';
import { Header } from './header.tsx';
import { Home } from './home.tsx';
import { KeyHelp } from './key-help.tsx';
import { OperatePage } from './operate/operate-page.tsx';

/** The content of the page by the path of its address. */
function Content({ path }: { readonly path: string }) {
  if (path === '/') return <Home />;
  if (path === '/operate') return <OperatePage />;
  const [, id] = /^\/c\/([^/]+)$/.exec(path) ?? [];
  return id === undefined ? <Missing /> : <ConversationPage id={id.replaceAll('-', '')} />;
}

export const App = ({ path }: { readonly path: string }) => (
  <>
    <Header path={path} />
    <Content path={path} />
    <KeyHelp />
  </>
);
