// Command forge is Gitea. `go install` refuses Gitea's own main package, because its go.mod has
// replace directives; this one is the main module instead, with the same directives.
package main

import (
	"os"

	"code.gitea.io/gitea/cmd"
	"code.gitea.io/gitea/modules/log"
	"code.gitea.io/gitea/modules/setting"

	"github.com/urfave/cli/v3"
)

// version is set by the linker.
var version = "0.0.0"

func main() {
	setting.AppVer = version
	cli.OsExiter = func(code int) {
		log.GetManager().Close()
		os.Exit(code)
	}
	app := cmd.NewMainApp(cmd.AppVersion{Version: version})
	_ = cmd.RunMainApp(app, os.Args...)
	log.GetManager().Close()
}
