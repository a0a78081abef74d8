"""Sign-ups over HTTP: a user and the task that welcomes them are one transaction."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID, uuid4

from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy import create_engine
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from stem import Stem, TaskNotFound
from stem.integrations.fastapi import StemApp, lifespan, mount_dashboard

URL = os.environ.get("WEB_APP_URL", "sqlite:///web_app.db")  # of the users, and of the tasks

engine = create_engine(URL)
stem = Stem(URL)


class Base(DeclarativeBase):
    pass


class User(Base):
    __tablename__ = "users"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    email: Mapped[str] = mapped_column(unique=True)


class Plan(StrEnum):
    FREE = "free"
    PRO = "pro"


class SignUp(BaseModel):
    email: str
    plan: Plan = Plan.FREE


class Welcome(BaseModel):
    user_id: UUID
    text: str
    sent_at: datetime


@stem.task
def welcome(user_id: UUID, sign_up: SignUp) -> Welcome:
    """Arguments and result are models here, JSON on the way, and models again where they arrive."""
    text = f"Welcome to {sign_up.plan}, {sign_up.email}"
    return Welcome(user_id=user_id, text=text, sent_at=datetime.now(UTC))


Base.metadata.create_all(engine)
web = FastAPI(lifespan=lifespan(stem))
mount_dashboard(web, stem, "/stem")


def open_session() -> Iterator[Session]:
    with Session(engine) as session:
        yield session


@web.post("/sign-ups", status_code=202)
def sign_up(new: SignUp, session: Annotated[Session, Depends(open_session)]) -> dict[str, str]:
    """The task is in the caller's transaction, so it runs if, and only if, the user is stored."""
    user = User(id=uuid4(), email=new.email)
    try:
        task = welcome.options(connection=session).enqueue(user.id, new)
        session.add(user)
        session.commit()
    except IntegrityError as error:
        raise HTTPException(409, f"{new.email} has signed up already.") from error
    return {"user": str(user.id), "task": task.id}


@web.get("/welcomes/{task_id}")
async def show_welcome(task_id: str, stem: StemApp) -> Welcome:
    try:
        return Welcome.model_validate(await stem.handle(task_id).aget(timeout=10))
    except TaskNotFound as error:
        raise HTTPException(404, str(error)) from error
