// Command pages serves pages that are made from a database by templates, as many sites do. It
// starts a MariaDB server of its own, whose CPU time belongs to the contender.
package main

import (
	"bytes"
	"context"
	"database/sql"
	"flag"
	"fmt"
	"html/template"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/application"
)

const (
	posts        = 1000 // in the database
	postsOnPage  = 20
	connections  = 16 // to the database
	startTimeout = 9 * time.Second
)

func main() {
	log.SetFlags(0)
	program := flag.String("mariadbd", "", "program of the database server")
	data := flag.String("data", "", "folder for the database")
	isTare := flag.Bool("tare", false, "serve with tare in place of net/http")
	site, err := application.FromFlags(flag.CommandLine, os.Args[1:])
	if err != nil {
		log.Fatal(err)
	}
	db, err := start(*program, *data)
	if err != nil {
		log.Fatal(err)
	}
	serve := http.Serve
	if *isTare {
		serve = tare.Serve
	}
	log.Fatal(serve(site.Listener, handler(db)))
}

// start starts the database server with an empty folder, and fills it.
func start(program, folder string) (*sql.DB, error) {
	data, socket := filepath.Join(folder, "data"), filepath.Join(folder, "db.sock")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, err
	}
	// Messages are beside the program, wherever its package was unpacked.
	messages := filepath.Join(filepath.Dir(filepath.Dir(program)), "share/mysql")
	args := []string{
		"--no-defaults", "--datadir=" + data, "--socket=" + socket, "--skip-networking", "--skip-grant-tables",
		"--lc-messages-dir=" + messages, "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=8M",
	}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	c := exec.Command(program, args...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	setup, err := sql.Open("mysql", "root@unix("+socket+")/")
	if err != nil {
		return nil, err
	}
	defer func() { _ = setup.Close() }()
	for setup.PingContext(ctx) != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("the database did not start in %v", startTimeout)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := setup.ExecContext(ctx, "CREATE DATABASE site"); err != nil {
		return nil, err
	}
	db, err := sql.Open("mysql", "root@unix("+socket+")/site?interpolateParams=true")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, fill(ctx, db)
}

// fill makes the posts.
func fill(ctx context.Context, db *sql.DB) error {
	const table = "CREATE TABLE posts (id INT PRIMARY KEY, title VARCHAR(100), body VARCHAR(1000), comments INT)"
	if _, err := db.ExecContext(ctx, table); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // fails after the commit
	body := string(bytes.Repeat([]byte("A sentence of a post. "), 10))
	for i := range posts {
		if _, err := tx.ExecContext(ctx, "INSERT INTO posts VALUES (?, ?, ?, ?)", i, fmt.Sprintf("Post %d & more", i),
			body, i%7); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// post is a row of the table.
type post struct {
	ID          int
	Title, Body string
	Comments    int
}

// handler sends the newest posts.
func handler(db *sql.DB) http.Handler {
	page := template.Must(template.New("page").Parse(`<!doctype html>
<title>Posts</title>
<h1>{{len .}} of the newest posts</h1>
{{range .}}<article id="post-{{.ID}}">
<h2><a href="/posts/{{.ID}}?title={{.Title}}">{{.Title}}</a></h2>
<p>{{.Body}}</p>
{{if .Comments}}<p>{{.Comments}} comments</p>{{else}}<p>No comments</p>{{end}}
</article>
{{end}}`))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all, err := newest(r.Context(), db)
		var b bytes.Buffer
		if err == nil {
			err = page.Execute(&b, all)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(b.Bytes())
	})
}

func newest(ctx context.Context, db *sql.DB) (all []post, err error) {
	rows, err := db.QueryContext(ctx, "SELECT id, title, body, comments FROM posts ORDER BY id DESC LIMIT ?", postsOnPage)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var p post
		if err := rows.Scan(&p.ID, &p.Title, &p.Body, &p.Comments); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, rows.Err()
}
