from django.db import models


class Order(models.Model):
    customer = models.CharField(max_length=50)
    price = models.IntegerField()
    state = models.CharField(max_length=20, default="new")


class Bill(models.Model):
    total = models.IntegerField()
