// Runs in the cluster, bundled into one file: the model of the OpenHands agents there.
import { ModelServer, finish, tool } from '../../support/model-server.ts';

const model = await ModelServer.start();
model.script(
  'task',
  tool(
    '[[ -f README.md ]] && { cat README.md; whoami; echo $SHELL; } >seen.txt; touch /tmp/kept && touch /refused',
  ),
  finish,
);
model.script(
  'pause',
  tool('echo before >>before.txt'),
  tool('touch begun; sleep 60; touch ended'),
  tool('echo after >>after.txt'),
  finish,
);
model.script('relay', finish);
await model.close();
await model.listen(8080, '0.0.0.0');
